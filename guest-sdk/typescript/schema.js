// Schemas that are types: index.d.ts gives each function the type of the values that its schema accepts.

const make = (json, description, limits, more) => ({
  json: { ...json, ...limits, ...(description === undefined ? {} : { description }) },
  ...more,
});

export const t = {
  string: (description, limits) => make({ type: 'string' }, description, limits),
  number: (description, limits) => make({ type: 'number' }, description, limits),
  integer: (description, limits) => make({ type: 'integer' }, description, limits),
  boolean: (description) => make({ type: 'boolean' }, description),
  choice: (choices, description) => make({ type: 'string', enum: [...choices] }, description),
  path: (description, limits) => make({ type: 'string' }, description, limits, { subject: 'paths' }),
  url: (description, limits) => make({ type: 'string' }, description, limits, { subject: 'urls' }),
  list: (items, description, limits) => make({ type: 'array', items: items.json }, description, limits, { items }),
  map: (values, description) => make({ type: 'object', additionalProperties: values.json }, description, {}, { values }),
  object: (properties, description) => make(objectSchema(properties), description, {}, { properties }),
  nullable: (schema) => ({ ...schema, json: { anyOf: [schema.json, { type: 'null' }] } }),
  optional: (schema, value) => ({
    ...schema,
    isOptional: true,
    json: value === undefined ? schema.json : { ...schema.json, default: value },
    default: value,
  }),
  json: (schema, description) => make(schema ?? {}, description),
};

/** The JSON Schema of an object with these properties and no others. */
export function objectSchema(properties) {
  const names = Object.keys(properties);
  return {
    type: 'object',
    properties: Object.fromEntries(names.map((name) => [name, properties[name].json])),
    required: names.filter((name) => !properties[name].isOptional),
    additionalProperties: false,
  };
}

/** JSON Pointers of the arguments that name a path or a URL; `*` stands for each item of a list. */
export function subjects(properties, kind) {
  const found = [];
  const visit = (schema, pointer) => {
    if (schema.subject === kind) found.push(pointer);
    if (schema.items) visit(schema.items, `${pointer}/*`);
    if (schema.values) refuse(schema.values, pointer);
    for (const [name, inner] of Object.entries(schema.properties ?? {})) visit(inner, `${pointer}/${escaped(name)}`);
  };
  // A pointer names the items of a list, and no keys that only a call has: such a path would be undeclared.
  const refuse = (values, pointer) => {
    const inner = subjects({ values }, kind);
    if (inner.length > 0) {
      throw new TypeError(`${pointer}: ${kind} in a map cannot be declared: use a list, or an object with a property for each`);
    }
  };
  visit({ properties }, '');
  return found;
}

const escaped = (name) => name.replaceAll('~', '~0').replaceAll('/', '~1');

/** Fills in the defaults of optional properties, which the host leaves out. */
export function withDefaults(properties, input) {
  const filled = { ...input };
  for (const [name, schema] of Object.entries(properties)) {
    if (filled[name] === undefined && schema.default !== undefined) filled[name] = schema.default;
    else if (schema.properties && filled[name] && typeof filled[name] === 'object') {
      filled[name] = withDefaults(schema.properties, filled[name]);
    }
  }
  return filled;
}
