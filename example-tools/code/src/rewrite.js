// Rewrites a script so that it needs no loop of jobs: its `async` functions become generators, which async.js runs. All other
// code stays as it is, on the same lines, so that an error names the line of the script.
import { parse } from 'acorn';

/** The name of async.js in the rewritten script. */
export const HELPERS = '$toolcell';

export function rewrite(source) {
  const tokens = [];
  const program = parse(source, {
    ecmaVersion: 2024,
    allowReturnOutsideFunction: true,
    allowAwaitOutsideFunction: true,
    onToken: tokens,
  });
  const rewriting = new Rewriting(source, tokens);
  rewriting.program(program);
  return rewriting.text(0, source.length);
}

/** What surrounds a node: whether `yield` is that of an `async` generator, and which words would mean something else, because
 * a function around the node becomes a generator. */
const OUTSIDE = { emits: false, closed: [] };
/** Words that mean something of a function, and that a generator inside of it cannot say. */
const OF_A_FUNCTION = ['super', 'new.target'];

class Rewriting {
  constructor(source, tokens) {
    this.source = source;
    this.tokens = tokens;
    /** Replaced ranges; of two at one place, the first one comes first. */
    this.edits = [];
    /** Where a statement begins: a rewritten one must not begin with a parenthesis, because the line before it may have no
     * semicolon. */
    this.starts = new Set();
  }

  program(program) {
    const last = program.body.at(-1);
    // The value of a script that ends with an expression, such as a call of its own main function.
    const isValue = last?.type === 'ExpressionStatement' && !last.directive;
    if (isValue) this.replace(last.start, last.start, 'return (');
    for (const statement of program.body) this.visit(statement, OUTSIDE);
    if (!isValue) return;
    const ending = this.tokens.findLast((token) => token.start < last.end);
    const end = this.textOf(ending) === ';' ? ending.start : last.end;
    this.replace(end, end, ')');
  }

  replace(start, end, text) {
    this.edits.push({ start, end, text });
  }

  /** The rewritten text of a range. */
  text(from, to) {
    const edits = this.edits.filter(({ start, end }) => start >= from && end <= to).sort((a, b) => a.start - b.start);
    const parts = [];
    let at = from;
    for (const { start, end, text } of edits) {
      parts.push(this.source.slice(at, start), text);
      at = end;
    }
    return parts.join('') + this.source.slice(at, to);
  }

  textOf(token) {
    return this.source.slice(token.start, token.end);
  }

  /** The place of the first token at or after `from`. */
  index(from) {
    let [low, high] = [0, this.tokens.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tokens[middle].start < from) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The first token with this text at or after `from`. */
  token(text, from) {
    let at = this.index(from);
    while (this.textOf(this.tokens[at]) !== text) at++;
    return this.tokens[at];
  }

  /** Writes `text` in the place of a token. */
  put(token, text) {
    this.replace(token.start, token.end, text);
  }

  /** What an expression begins with that would begin with a parenthesis. */
  opening(start) {
    return this.starts.has(start) ? 'void 0, ' : '';
  }

  checkWord(node, around) {
    const word = this.source.slice(node.start, node.end);
    if (!around.closed.includes(word)) return;
    const line = this.source.slice(0, node.start).split('\n').length;
    const kind = word === 'arguments' ? 'an async arrow function' : 'an async function';
    throw new SyntaxError(`${word} cannot be used in ${kind} (line ${line})`);
  }

  visit(node, around) {
    switch (node.type) {
      case 'ExpressionStatement':
        this.starts.add(node.start);
        break;
      case 'FunctionDeclaration':
      case 'FunctionExpression':
        return node.async ? this.asyncFunction(node) : this.inside(node, OUTSIDE);
      case 'ArrowFunctionExpression':
        return node.async ? this.asyncArrow(node, around) : this.inside(node, around);
      case 'Property':
      case 'MethodDefinition':
        if (node.value.async && (node.method || node.type === 'MethodDefinition')) return this.asyncMethod(node, around);
        break;
      case 'PropertyDefinition':
        if (node.computed) this.visit(node.key, around);
        if (node.value) this.visit(node.value, OUTSIDE);
        return;
      case 'StaticBlock':
        return this.inside(node, OUTSIDE);
      case 'AwaitExpression':
        this.put(this.token('await', node.start), `${this.opening(node.start)}(yield (`);
        this.inside(node, around);
        return this.replace(node.end, node.end, '))');
      case 'YieldExpression':
        return this.yielded(node, around);
      case 'LabeledStatement':
      case 'ForOfStatement':
        return this.loop(node, around);
      case 'Super':
      case 'MetaProperty':
      case 'Identifier':
        return this.checkWord(node, around);
    }
    this.inside(node, around);
  }

  /** Visits what a node is made of. */
  inside(node, around) {
    for (const [name, part] of Object.entries(node)) {
      // The name of a property is no variable.
      if ((name === 'property' || name === 'key') && !node.computed && part?.type === 'Identifier') continue;
      for (const one of Array.isArray(part) ? part : [part]) if (one?.type && one.start !== undefined) this.visit(one, around);
    }
  }

  /** `() { return run(this, arguments, function* (..) {..}) }`, from the parameters on. The parameters move too, because the
   * body may declare their names again. */
  asyncBody(node, paren) {
    const how = node.generator ? 'generator' : 'run';
    this.replace(paren, paren, `() { return ${HELPERS}.${how}(this, arguments, function* `);
    const around = { emits: node.generator, closed: OF_A_FUNCTION };
    for (const part of node.params) this.visit(part, around);
    this.inside(node.body, around);
    this.replace(node.end, node.end, ') }');
  }

  asyncFunction(node) {
    this.put(this.token('async', node.start), '');
    if (node.generator) this.put(this.token('*', node.start), '');
    this.asyncBody(node, this.token('(', node.id?.end ?? node.start).start);
  }

  asyncMethod(node, around) {
    // The first one is this word, because a key comes later. A field before a key in brackets may have no semicolon.
    const isAfterField = node.type === 'MethodDefinition' && node.computed && !node.static;
    this.put(this.token('async', node.start), isAfterField ? ';' : '');
    if (node.value.generator) this.put(this.token('*', node.start), '');
    if (node.computed) this.visit(node.key, around);
    this.asyncBody(node.value, node.value.start);
  }

  asyncArrow(node, around) {
    const word = this.token('async', node.start);
    // Whether its only parameter has no parentheses.
    const isBare = this.textOf(this.tokens[this.index(word.end)]) !== '(';
    const call = `(...$values) => ${HELPERS}.run(this, $values, function* `;
    this.put(word, `${this.opening(node.start)}${call}${isBare ? '(' : ''}`);
    const inner = { emits: false, closed: [...OF_A_FUNCTION, 'arguments'] };
    for (const part of node.params) this.visit(part, inner);
    const arrow = this.token('=>', node.params.at(-1)?.end ?? node.start);
    this.put(arrow, `${isBare ? ')' : ''}${node.expression ? '{ return (' : ''}`);
    if (node.expression) this.visit(node.body, inner);
    else this.inside(node.body, inner);
    this.replace(node.end, node.end, node.expression ? ') })' : ')');
  }

  yielded(node, around) {
    if (!around.emits) return this.inside(node, around);
    const word = this.token('yield', node.start);
    this.put(word, `${this.opening(node.start)}(yield ${HELPERS}.${node.delegate ? 'delegate' : 'emit'}(`);
    if (node.delegate) this.put(this.token('*', word.end), '');
    this.inside(node, around);
    this.replace(node.end, node.end, '))');
  }

  /** `for await`, with its labels. */
  loop(node, around) {
    let loop = node;
    while (loop.type === 'LabeledStatement') loop = loop.body;
    if (loop.type !== 'ForOfStatement' || !loop.await) return this.inside(node, around);
    const before = this.edits.length;
    for (const part of [loop.left, loop.right, loop.body]) this.visit(part, around);
    const textOf = (part) => this.text(part.start, part.end);
    const [left, right, body] = [loop.left, loop.right, loop.body].map(textOf);
    const isDeclared = loop.left.type === 'VariableDeclaration';
    const assigned = isDeclared ? `${left} = $step.value;` : `(${left} = $step.value);`;
    const labels = this.source.slice(node.start, loop.start);
    const head =
      `{ const $steps = ${HELPERS}.iterate(${right}); try { ` +
      `${labels}for (let $step; !($step = (yield $steps.next())).done; ) { ${assigned} `;
    // The head has as many lines as before.
    const count = (text) => text.split('\n').length;
    const missing = count(this.source.slice(node.start, loop.body.start)) - count(head);
    const end = ' } } finally { if (!$steps.isDone) yield $steps.close(); } }';
    this.edits.length = before;
    this.replace(node.start, node.end, head + '\n'.repeat(Math.max(0, missing)) + body + end);
  }
}
