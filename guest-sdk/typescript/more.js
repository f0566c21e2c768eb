// What a component exports besides its tools: checks of values, claims about one call, and the settings of the operator.
import { ToolError, toRecord } from './error.js';
import { withDefaults } from './schema.js';

let settings;

/** Declares the settings. Returns a function that gives them in a call. */
export function configuration(properties) {
  settings = { properties, value: withDefaults(properties, {}) };
  return () => settings.value;
}

const kindsOf = (value) => {
  if (value === null) return ['null'];
  if (Array.isArray(value)) return ['array'];
  return Number.isInteger(value) ? ['integer', 'number'] : [typeof value];
};

/** Takes the operator's settings. */
export function configure(given) {
  const unusable = (why) => new ToolError('settings', `the settings cannot be used: ${why}`, { class: 'setup_required' });
  if (!settings) throw unusable('the tool takes none');
  const { properties } = settings;
  for (const name of Object.keys(given)) if (!properties[name]) throw unusable(`there is no ${name}`);
  const value = withDefaults(properties, given);
  for (const [name, { json, isOptional }] of Object.entries(properties)) {
    const isMissing = value[name] === undefined;
    if (isMissing && !isOptional) throw unusable(`${name} is missing`);
    const wanted = [json.type ?? []].flat();
    const fits = isMissing || wanted.length === 0 || wanted.some((kind) => kindsOf(value[name]).includes(kind));
    if (!fits) throw unusable(`${name} is no ${wanted.join(' or ')}`);
  }
  settings.value = value;
}

/** Between two tests. */
export const forget = () => {
  if (settings) settings.value = withDefaults(settings.properties, {});
};

const toolOf = (kit, name) => kit.tools.find((tool) => tool.name === name);

/** `field` is `check` or `preflight`. */
function run(kit, name, input, field) {
  const tool = toolOf(kit, name);
  tool?.[field]?.(withDefaults(tool.input ?? {}, input));
}

export const checkValues = (kit, name, input) => run(kit, name, input, 'check');
export const preflight = (kit, name, input) => run(kit, name, input, 'preflight');

export function classify(kit, name, input) {
  const tool = toolOf(kit, name);
  return tool?.classify?.(withDefaults(tool.input ?? {}, input)) ?? {};
}

const claim = (stated) => (stated === undefined ? 'unstated' : stated ? 'yes' : 'no');

/** A failure is thrown as the record of the contract. */
const answering = (work) => {
  try {
    work();
  } catch (thrown) {
    throw toRecord(thrown);
  }
};

/** The interfaces that the component exports for this toolkit, by their names. */
export function interfaces(kit) {
  const has = (field) => kit.tools.some((tool) => tool[field]);
  const found = {};
  if (has('check') || has('preflight')) {
    const running = (run) => (name, input) => answering(() => run(kit, name, JSON.parse(input)));
    found.validation = { validateValues: running(checkValues), preflight: running(preflight) };
  }
  if (has('classify')) {
    found.classification = {
      classify(name, input) {
        const facts = classify(kit, name, JSON.parse(input));
        const { isReadOnly, isConcurrencySafe, isDestructive, isOpenWorld } = facts;
        const claims = { readOnly: isReadOnly, concurrencySafe: isConcurrencySafe, destructive: isDestructive, openWorld: isOpenWorld };
        return Object.fromEntries(Object.entries(claims).map(([fact, stated]) => [fact, claim(stated)]));
      },
    };
  }
  if (settings) found.configuration = { configure: (text) => answering(() => configure(JSON.parse(text))) };
  return found;
}
