/** Where a function given as `next` may lead, as far as its returns say it. */
import type { Sources } from './sources.ts';
import { unwrap, childrenOf, type FunctionNode, is, isFunction, memberName, type Node } from './syntax.ts';

export interface PossibleTarget {
  readonly name: string;
  readonly node: Node;
}
export interface PossibleTargets {
  readonly targets: readonly PossibleTarget[];
  /** False: it may lead elsewhere too. */
  readonly isComplete: boolean;
}

const UNKNOWN: PossibleTargets = { targets: [], isComplete: false };
const MAX_DEPTH = 50;

/** Null when `next` is no function, or not known to be one. */
export function functionTargets(sources: Sources, next: Node): PossibleTargets | null {
  const value = sources.valueOf(next);
  return isFunction(value) ? findReturnedTargets(sources, value, 0) : null;
}

function findReturnedTargets(sources: Sources, made: FunctionNode, depth: number): PossibleTargets {
  if (depth > MAX_DEPTH || made.body === null || made.generator || made.async) return UNKNOWN;
  if (!is(made.body, 'BlockStatement')) return valuesOf(sources, made.body, depth + 1);
  return joinTargets(
    findReturns(made.body).map((argument) => (argument === null ? UNKNOWN : valuesOf(sources, argument, depth + 1))),
  );
}

/** Arguments of the function's own `return`s; null for one without. */
function findReturns(node: Node): readonly (Node | null)[] {
  if (is(node, 'ReturnStatement')) return [node.argument];
  if (isFunction(node) || is(node, 'ClassDeclaration', 'ClassExpression')) return [];
  return childrenOf(node).flatMap(findReturns);
}

function valuesOf(sources: Sources, node: Node, depth: number): PossibleTargets {
  if (depth > MAX_DEPTH) return UNKNOWN;
  const text = sources.textOf(node);
  if (text !== null) return { targets: [{ name: text, node }], isComplete: true };
  const joinTargetsOf = (...nodes: readonly Node[]): PossibleTargets =>
    joinTargets(nodes.map((one) => valuesOf(sources, one, depth + 1)));
  const inner = unwrap(node);
  if (is(inner, 'ConditionalExpression')) return joinTargetsOf(inner.consequent, inner.alternate);
  // What is on the left of `||` and `??` may be something that is not a name; then the right is given.
  if (is(inner, 'LogicalExpression') && inner.operator !== '&&') return joinTargetsOf(inner.left, inner.right);
  if (is(inner, 'SequenceExpression')) return valuesOf(sources, inner.expressions.at(-1)!, depth + 1);
  if (is(inner, 'MemberExpression') && memberName(inner) === null)
    return findTableTargets(sources, inner.object, depth);
  if (is(inner, 'CallExpression')) {
    const called = sources.valueOf(inner.callee);
    return isFunction(called) ? findReturnedTargets(sources, called, depth + 1) : UNKNOWN;
  }
  const value = sources.valueOf(inner);
  return value === null || value === inner ? UNKNOWN : valuesOf(sources, value, depth + 1);
}

/** `TABLE[key]`: any value of the table, or nothing at all, which the caller's `??` or the type checker deals with. */
function findTableTargets(sources: Sources, object: Node, depth: number): PossibleTargets {
  const table = sources.valueOf(object);
  if (is(table, 'ArrayExpression'))
    return joinTargets(
      table.elements.map((element) =>
        element === null || is(element, 'SpreadElement') ? UNKNOWN : valuesOf(sources, element, depth + 1),
      ),
    );
  if (!is(table, 'ObjectExpression')) return UNKNOWN;
  return joinTargets(
    table.properties.map((property) =>
      is(property, 'SpreadElement') ? UNKNOWN : valuesOf(sources, property.value, depth + 1),
    ),
  );
}

function joinTargets(all: readonly PossibleTargets[]): PossibleTargets {
  const byName = new Map(
    all.flatMap(({ targets }) => targets.map((target) => [target.name, target] as const)).reverse(),
  );
  return {
    targets: [...byName.values()].reverse(),
    isComplete: all.length > 0 && all.every(({ isComplete }) => isComplete),
  };
}
