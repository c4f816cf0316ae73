/** Finds the tools that a host is known to have after a test has passed or failed. */
import type { Sources } from './sources.ts';
import { unwrap, below, is, isFunction, memberName, type Node, type NodeOf } from './syntax.ts';

/** Names of tools, by how the test ends. */
export interface Guards {
  readonly ifTrue: ReadonlySet<string>;
  readonly ifFalse: ReadonlySet<string>;
}

const NONE: ReadonlySet<string> = new Set();
const MAX_DEPTH = 50;

/** The question `host.toolsAvailable.includes('X')`, or one like it. */
export interface ToolQuestion {
  readonly tool: string;
  readonly node: Node;
}

/** `host.toolsAvailable`, under whatever names: something that the prompt function was handed, not a variable that is called so. */
export function isToolList(sources: Sources, node: Node): boolean {
  const origin = sources.originOf(node);
  if (origin.kind === 'parameter') return origin.path.at(-1) === 'toolsAvailable';
  const value = origin.kind === 'value' ? origin.node : null;
  // new Set(host.toolsAvailable)
  return (
    is(value, 'NewExpression') &&
    is(value.callee, 'Identifier') &&
    value.callee.name === 'Set' &&
    value.arguments.some((one) => isToolList(sources, one))
  );
}

/** Null when this is no question for a tool, or the tool is not known. */
export function toolQuestion(sources: Sources, node: Node): ToolQuestion | null {
  if (!is(node, 'CallExpression')) return null;
  const callee = unwrap(node.callee);
  const [argument] = node.arguments;
  if (
    !is(callee, 'MemberExpression') ||
    argument === undefined ||
    !['includes', 'has', 'indexOf'].includes(memberName(callee) ?? '')
  )
    return null;
  const tool = isToolList(sources, callee.object) ? sources.textOf(argument) : null;
  return tool === null ? null : { tool, node: argument };
}

export function guardsOf(sources: Sources, test: Node, depth = 0): Guards {
  if (depth > MAX_DEPTH) return { ifTrue: NONE, ifFalse: NONE };
  const inner = unwrap(test);
  const of = (node: Node): Guards => guardsOf(sources, node, depth + 1);
  if (is(inner, 'UnaryExpression') && inner.operator === '!') {
    const { ifTrue, ifFalse } = of(inner.argument);
    return { ifTrue: ifFalse, ifFalse: ifTrue };
  }
  if (is(inner, 'LogicalExpression')) {
    const [left, right] = [of(inner.left), of(inner.right)];
    // Behind `a || b` either may be there, so that a text may name both.
    return { ifTrue: union(left.ifTrue, right.ifTrue), ifFalse: union(left.ifFalse, right.ifFalse) };
  }
  const asked = toolQuestion(sources, inner);
  if (
    asked !== null &&
    memberName(unwrap((inner as Node & { callee: Node }).callee) as Parameters<typeof memberName>[0]) !== 'indexOf'
  )
    return { ifTrue: new Set([asked.tool]), ifFalse: NONE };
  const value = sources.valueOf(inner);
  if (value !== null && value !== inner) return of(value);
  const named = namedBeside(sources, inner);
  return is(inner, 'BinaryExpression') ? { ifTrue: named, ifFalse: named } : { ifTrue: named, ifFalse: NONE };
}

export function union(one: ReadonlySet<string>, other: ReadonlySet<string>): ReadonlySet<string> {
  return other.size === 0 ? one : new Set([...one, ...other]);
}

/** Texts in an expression that looks at the host's tools in a way of its own: any of them may be what it asks for. */
function namedBeside(sources: Sources, node: Node): ReadonlySet<string> {
  const parts = [...below(node)];
  const asks = parts.some((part) => {
    if (!is(part, 'Identifier', 'MemberExpression')) return false;
    const origin = sources.originOf(part);
    return origin.kind === 'parameter' && origin.path.some((name) => name === 'toolsAvailable' || name === 'host');
  });
  if (!asks || isFunction(node)) return NONE;
  return new Set(
    parts.flatMap((part) =>
      is(part, 'Literal', 'TemplateLiteral', 'Identifier', 'MemberExpression') ? textsOf(sources, part) : [],
    ),
  );
}

/** A text, or those of a list. */
function textsOf(sources: Sources, node: Node): readonly string[] {
  const list = sources.valueOf(node);
  const parts = is(list, 'ArrayExpression') ? list.elements.filter((element) => element !== null) : [node];
  return parts.flatMap((part) => sources.textOf(part) ?? []);
}

/**
 * Returns the tools that a call asks the author's helper for, if the call passes the host: `when(host, 'X', 'Use X.')`
 * returns the text if X exists.
 */
export function askedOf(sources: Sources, call: NodeOf<'CallExpression'>): ReadonlySet<string> {
  const isHanded = call.arguments.some((argument) => {
    const origin = sources.originOf(argument);
    return origin.kind === 'parameter' && ['host', 'toolsAvailable'].includes(origin.path.at(-1) ?? '');
  });
  return isHanded ? new Set(call.arguments.flatMap((argument) => textsOf(sources, argument))) : NONE;
}
