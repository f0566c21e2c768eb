// The object `tools` of a script: the tools that the call may call, by any of their names.
import { ToolError, callTool, callableTools } from '#toolcell';

export class Calls {
  count = 0;
  /** What partial answers lack, for the console. */
  missing = [];
  #callable;

  /** Names and descriptions. */
  list() {
    this.#callable ??= callableTools();
    return this.#callable;
  }

  /** `tools.search(..)`, `tools.files.search(..)`, `tools['files.search'](..)`. */
  object() {
    return this.#named([]);
  }

  #named(path) {
    const call = async (input = {}) => this.#call(path.join('.'), input);
    return new Proxy(call, {
      get: (target, word) => {
        // A promise that is made of this is no promise itself; no tool has more words in its name than two.
        if (typeof word !== 'string' || word === 'then' || path.length === 2) return Reflect.get(target, word);
        return this.#named([...path, word]);
      },
      ownKeys: () => [...Reflect.ownKeys(call), ...(path.length === 0 ? this.list().map(({ name }) => name) : [])],
      getOwnPropertyDescriptor: (target, word) =>
        Reflect.getOwnPropertyDescriptor(target, word) ?? { value: this.#named([word]), enumerable: true, configurable: true },
    });
  }

  #call(typed, input) {
    if (input === null || typeof input !== 'object') throw new TypeError(`${typed} takes one object of arguments`);
    this.count++;
    const name = this.#qualified(typed);
    try {
      return this.#value(name, callTool(name, input));
    } catch (error) {
      throw error instanceof ToolError ? Object.assign(error, { tool: name }) : error;
    }
  }

  /** The qualified name of a tool. The host refuses one that may not be called. */
  #qualified(typed) {
    const names = this.list().map(({ name }) => name);
    if (names.includes(typed)) return typed;
    const found = names.filter((name) => name.endsWith(`.${typed}`));
    if (found.length < 2) return found[0] ?? typed;
    throw new ToolError('ambiguous_tool', `several tools are named ${typed}: call one of ${found.join(', ')}`);
  }

  /** The structured value of an answer, with the rest of the answer beside its own properties; or its text; or its blocks. */
  #value(name, /** @type {import('#toolcell').ToolAnswer} */ { content, structured, missing }) {
    if (missing) this.missing.push(`${name} answered in part: ${missing.message} [${missing.class}/${missing.code}]`);
    const texts = content.filter(({ type }) => type === 'text');
    const text = texts.map(({ text }) => text).join('\n');
    if (structured === undefined) return texts.length === content.length ? text : content;
    if (structured === null || typeof structured !== 'object') return structured;
    // Not enumerable: the value that another tool gets, or that the script returns, is the structured one.
    for (const [name, value] of Object.entries({ text, content })) {
      if (!(name in structured)) Object.defineProperty(structured, name, { value });
    }
    return structured;
  }
}
