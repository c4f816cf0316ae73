/** The syntax tree of an author's file: its kinds of nodes, its parser, and how to go through it. */
import { parseAst } from 'rolldown/parseAst';

export type Program = ReturnType<typeof parseAst>;
export type Statement = Program['body'][number];
export type Expression = Extract<Statement, { type: 'ExpressionStatement' }>['expression'];
export type Call = Extract<Expression, { type: 'CallExpression' }>;
export type ObjectLiteral = Extract<Expression, { type: 'ObjectExpression' }>;
type Declaration = Extract<Statement, { type: 'VariableDeclaration' }>;
export type Declarator = Declaration['declarations'][number];
type Pattern = Declarator['id'];
type Parts =
  | Program
  | Statement
  | Expression
  | Call['arguments'][number]
  | ObjectLiteral['properties'][number]
  | Declarator
  | Pattern
  | Extract<Pattern, { type: 'ObjectPattern' }>['properties'][number]
  | Extract<Expression, { type: 'ArrowFunctionExpression' }>['params'][number]
  | Extract<Expression, { type: 'TemplateLiteral' }>['quasis'][number]
  | Extract<Statement, { type: 'SwitchStatement' }>['cases'][number]
  | NonNullable<Extract<Statement, { type: 'TryStatement' }>['handler']>
  | Extract<Statement, { type: 'ImportDeclaration' }>['specifiers'][number];

/** Any node, before its kind is asked for with `is`. */
export interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
}
export type NodeOf<Type extends Parts['type']> = OfType<Parts, Type>;
/** Functions and classes have one shape for several types, which Extract would pass over. */
type OfType<Part extends { type: string }, Type extends string> = Part extends unknown
  ? [Extract<Part['type'], Type>] extends [never]
    ? never
    : Part
  : never;
export type FunctionNode = NodeOf<'ArrowFunctionExpression' | 'FunctionExpression' | 'FunctionDeclaration'>;

export function is<const Type extends Parts['type']>(
  node: Node | null | undefined,
  ...types: readonly Type[]
): node is NodeOf<Type> {
  return node !== null && node !== undefined && (types as readonly string[]).includes(node.type);
}

export function isFunction(node: Node | null | undefined): node is FunctionNode {
  return is(node, 'ArrowFunctionExpression', 'FunctionExpression', 'FunctionDeclaration');
}

const LANGUAGES: Readonly<Record<string, 'ts' | 'tsx' | 'js' | 'jsx'>> = {
  ts: 'ts',
  mts: 'ts',
  cts: 'ts',
  tsx: 'tsx',
  jsx: 'jsx',
};

/** @throws an error with `pos` when the text is no TypeScript or JavaScript */
export function parse(file: string, text: string): Program {
  return parseAst(text, { lang: LANGUAGES[file.slice(file.lastIndexOf('.') + 1)] ?? 'js' }, file);
}

/** Direct parts of a node in the order of the source, types left out: they say nothing that runs. */
export function childrenOf(node: Node): readonly Node[] {
  const found: Node[] = [];
  for (const value of Object.values(node) as unknown[]) {
    for (const part of Array.isArray(value) ? (value as unknown[]) : [value])
      if (isNode(part) && !isType(part)) found.push(part);
  }
  return found.toSorted((a, b) => a.start - b.start);
}

/** The node and everything below it, in the order of the source. A chain of a thousand steps is thousands of nodes deep. */
export function* below(node: Node): Generator<Node> {
  const open = [node];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    yield next;
    open.push(...childrenOf(next).toReversed());
  }
}

/** Wrappers that only the type checker sees, and parentheses. */
export function unwrap(node: Node): Node {
  let inner = node;
  while (WRAPPERS.has(inner.type)) inner = (inner as Node & { readonly expression: Node }).expression;
  return inner;
}

const WRAPPERS: ReadonlySet<string> = new Set([
  'TSAsExpression',
  'TSSatisfiesExpression',
  'TSNonNullExpression',
  'TSTypeAssertion',
  'TSInstantiationExpression',
  'ParenthesizedExpression',
  'ChainExpression',
]);
/** Node types that begin with TS but exist at run time. */
const RUNNING: ReadonlySet<string> = new Set([
  ...WRAPPERS,
  'TSEnumDeclaration',
  'TSEnumBody',
  'TSEnumMember',
  'TSExportAssignment',
  'TSParameterProperty',
]);

function isType(node: Node): boolean {
  return node.type.startsWith('TS') && !RUNNING.has(node.type);
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && typeof (value as { type?: unknown }).type === 'string';
}

/** Returns the name after the dot, or the literal between brackets; null if it is computed. */
export function memberName(node: NodeOf<'MemberExpression'>): string | null {
  const { property, computed } = node as { readonly property: Node; readonly computed: boolean };
  if (!computed) return is(property, 'Identifier') ? property.name : null;
  return literalText(property);
}

/** Returns the name of a property of an object or a pattern; null if it is computed. */
export function keyName({ key, computed }: { readonly key: Node; readonly computed: boolean }): string | null {
  if (!computed && is(key, 'Identifier')) return key.name;
  return literalText(key);
}

/** The text of a string, or of a template without gaps. */
export function literalText(node: Node): string | null {
  const inner = unwrap(node);
  if (is(inner, 'Literal')) return typeof inner.value === 'string' ? inner.value : null;
  if (is(inner, 'TemplateLiteral') && inner.expressions.length === 0) return inner.quasis[0]?.value.cooked ?? null;
  return null;
}
