/** Reads the texts of a step's prompt and of the functions that it calls, each with the tests before it. */
import { askedOf, union, guardsOf, isToolList, type ToolQuestion, toolQuestion } from './guards.ts';
import { propertyOf, type Sources } from './sources.ts';
import { unwrap, childrenOf, is, isFunction, keyName, memberName, type Node, type NodeOf } from './syntax.ts';
import { toolsNamedIn } from './tool-names.ts';

export interface SourceMention {
  readonly tool: string;
  readonly node: Node;
  /** The offset of the name from the node's start. */
  readonly offset: number;
}
/** A structured question; `values` null: not all of its options are written out. */
export interface SourceAsk {
  readonly node: Node;
  readonly values: readonly string[] | null;
}
export interface PromptSource {
  /** Names of tools that no test for that tool precedes. */
  readonly mentions: readonly SourceMention[];
  readonly questions: readonly ToolQuestion[];
  readonly asks: readonly SourceAsk[];
  /** The prompt reads the host's tools, in whatever way. */
  readonly branchesOnHost: boolean;
}

type Names = ReadonlySet<string>;
const MAX_DEPTH = 200;
/** Keys of primitives whose values are for programs and are not prose. */
const MACHINE_KEYS: Names = new Set(['type', 'kind', 'value', 'status', 'defaultAnswer', 'output']);
const COMPARISONS: Names = new Set(['===', '!==', '==', '!=', '<', '>', '<=', '>=', 'in', 'instanceof']);

export function readPrompt(sources: Sources, prompt: Node): PromptSource {
  return new PromptReader(sources).read(prompt);
}

class PromptReader {
  readonly #sources: Sources;
  readonly #mentions = new Map<string, SourceMention>();
  readonly #questions = new Map<Node, ToolQuestion>();
  readonly #asks = new Map<Node, SourceAsk>();
  /** The nodes that were entered, with the tools that were known to exist. */
  readonly #seen = new Set<string>();
  #branchesOnHost = false;
  /** The operands of a test are not text of the prompt. */
  #isInTest = false;

  constructor(sources: Sources) {
    this.#sources = sources;
  }

  read(prompt: Node): PromptSource {
    this.#visit(prompt, new Set(), 0);
    return {
      mentions: [...this.#mentions.values()],
      questions: [...this.#questions.values()],
      asks: [...this.#asks.values()],
      branchesOnHost: this.#branchesOnHost,
    };
  }

  #visit(given: Node, there: Names, depth: number): void {
    const node = unwrap(given);
    if (depth > MAX_DEPTH) return;
    const each = (nodes: readonly Node[], known = there): void =>
      nodes.forEach((one) => this.#visit(one, known, depth + 1));
    const text = is(node, 'Literal') ? node.value : is(node, 'TemplateElement') ? node.value.cooked : null;
    if (typeof text === 'string') return this.#text(node, text, there);
    if (is(node, 'BlockStatement')) return this.#statements(node.body, there, depth);
    if (is(node, 'IfStatement', 'ConditionalExpression')) {
      const guards = guardsOf(this.#sources, node.test);
      this.#test(node.test, there, depth);
      each([node.consequent], union(there, guards.ifTrue));
      return each(node.alternate ? [node.alternate] : [], union(there, guards.ifFalse));
    }
    if (is(node, 'LogicalExpression')) {
      const guards = guardsOf(this.#sources, node.left);
      if (node.operator === '&&') this.#test(node.left, there, depth);
      else each([node.left]);
      return each(
        [node.right],
        union(there, node.operator === '&&' ? guards.ifTrue : node.operator === '||' ? guards.ifFalse : new Set()),
      );
    }
    if (is(node, 'BinaryExpression') && COMPARISONS.has(node.operator))
      return each([node.left, node.right].filter((side) => !is(unwrap(side), 'Literal')));
    if (is(node, 'SwitchCase')) return each(node.consequent);
    if (is(node, 'CallExpression')) return this.#call(node, there, depth);
    if (is(node, 'Identifier', 'MemberExpression')) return this.#name(node, there, depth);
    if (is(node, 'Property')) return MACHINE_KEYS.has(keyName(node) ?? '') ? undefined : each([node.value as Node]);
    if (is(node, 'VariableDeclarator'))
      return is(node.id, 'Identifier') && this.#isUsedLater(node) ? undefined : each(node.init ? [node.init] : []);
    if (is(node, 'TaggedTemplateExpression')) return each([node.quasi]);
    if (isFunction(node)) return each(node.body === null ? [] : [node.body]);
    each(childrenOf(node));
  }

  #test(node: Node, there: Names, depth: number): void {
    const before = this.#isInTest;
    this.#isInTest = true;
    this.#visit(node, there, depth + 1);
    this.#isInTest = before;
  }

  /** An `if` that always leaves decides what is known behind it. */
  #statements(statements: readonly Node[], before: Names, depth: number): void {
    let there = before;
    for (const statement of statements) {
      // Declared functions are read where they are called.
      if (is(statement, 'FunctionDeclaration')) continue;
      this.#visit(statement, there, depth + 1);
      if (!is(statement, 'IfStatement')) continue;
      const guards = guardsOf(this.#sources, statement.test);
      if (alwaysLeaves(statement.consequent)) there = union(there, guards.ifFalse);
      if (statement.alternate && alwaysLeaves(statement.alternate)) there = union(there, guards.ifTrue);
    }
  }

  #text(node: Node, text: string, there: Names): void {
    const mentioned = toolsNamedIn(text).filter(({ tool }) => !there.has(tool));
    if (mentioned.length === 0 || this.#isInTest) return;
    const { text: file } = this.#sources.fileOf(node);
    for (const { tool, index } of mentioned) {
      // Escapes make the text shorter than its source; the name itself has no escapes.
      const written = file.slice(node.start, node.end).indexOf(tool, index);
      this.#mentions.set(`${node.start} ${tool} ${this.#sources.fileOf(node).path}`, {
        tool,
        node,
        offset: Math.max(0, written),
      });
    }
  }

  #call(node: NodeOf<'CallExpression'>, there: Names, depth: number): void {
    const question = toolQuestion(this.#sources, node);
    if (question !== null) {
      this.#questions.set(question.node, question);
      this.#branchesOnHost = true;
      return;
    }
    const callee = unwrap(node.callee);
    if (is(callee, 'MemberExpression') && memberName(callee) === 'askUser' && this.#isAct(callee.object))
      this.#ask(node);
    // refs.load('apply_patch.md'), text.includes('Bash'): names of files and what is looked for are no prose.
    if (is(callee, 'MemberExpression') && LOOK_UPS.has(memberName(callee) ?? ''))
      return this.#visit(callee.object, there, depth + 1);
    this.#visit(callee, there, depth + 1);
    const known = union(there, askedOf(this.#sources, node));
    for (const argument of node.arguments) this.#visit(argument, known, depth + 1);
  }

  /** Follows a name to its value, once for each set of tools that are known to exist. */
  #name(node: Node, there: Names, depth: number): void {
    if (isToolList(this.#sources, node)) {
      this.#branchesOnHost = true;
      return;
    }
    const value = this.#sources.valueOf(node);
    if (value === null || value === node || is(value, 'Program')) {
      if (is(node, 'MemberExpression')) this.#visit(node.object, there, depth + 1);
      return;
    }
    const key = `${this.#sources.fileOf(value).path} ${value.start} ${value.end} ${this.#isInTest} ${[...there].join(' ')}`;
    if (this.#seen.has(key)) return;
    this.#seen.add(key);
    this.#visit(value, there, depth + 1);
  }

  #isUsedLater({ init, id }: { readonly init: Node | null; readonly id: Node }): boolean {
    // A constant is read at each use, with the tests that precede the use.
    return init !== null && this.#sources.valueOf(id) !== null;
  }

  #isAct(node: Node): boolean {
    if (this.#sources.kitExport(node) === 'act') return true;
    const origin = this.#sources.originOf(node);
    return origin.kind === 'parameter' && origin.path.at(-1) === 'act';
  }

  #ask(node: Node & { readonly arguments: readonly Node[] }): void {
    const config = node.arguments[0] === undefined ? null : this.#sources.valueOf(node.arguments[0]);
    const type = config === null ? null : propertyOf(config, 'type');
    if (config === null || (type !== null && this.#sources.textOf(type) === 'open')) return;
    const options = propertyOf(config, 'options');
    const list = options === null ? null : this.#sources.valueOf(options);
    const values = is(list, 'ArrayExpression')
      ? list.elements.map((option) => (option === null ? null : this.#optionValue(option)))
      : [null];
    this.#asks.set(node, { node, values: values.every((value) => value !== null) ? values : null });
  }

  #optionValue(option: Node): string | null {
    const object = is(option, 'SpreadElement') ? null : this.#sources.valueOf(option);
    const value = object === null ? null : propertyOf(object, 'value');
    return value === null ? null : this.#sources.textOf(value);
  }
}

const LOOK_UPS: Names = new Set([
  'load',
  'asset',
  'includes',
  'has',
  'indexOf',
  'startsWith',
  'endsWith',
  'get',
  'all',
  'ran',
]);

function alwaysLeaves(node: Node): boolean {
  if (is(node, 'ReturnStatement', 'ThrowStatement', 'ContinueStatement', 'BreakStatement')) return true;
  return is(node, 'BlockStatement') && node.body.some(alwaysLeaves);
}
