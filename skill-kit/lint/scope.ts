/** Which declaration each name of a file means, shadowing included. */
import {
  below,
  childrenOf,
  type Expression,
  type FunctionNode,
  is,
  isFunction,
  keyName,
  type Node,
  type Program,
} from './syntax.ts';

/** The meaning of a name. `path`: the properties of its destructuring; null if one of them is unknown. */
export type Binding =
  | { readonly kind: 'import'; readonly source: string; /** `*` for a namespace. */ readonly imported: string }
  | {
      readonly kind: 'variable';
      readonly isConst: boolean;
      readonly init: Expression | null;
      readonly path: readonly string[] | null;
    }
  | { readonly kind: 'function'; readonly node: FunctionNode }
  | {
      readonly kind: 'parameter';
      readonly of: FunctionNode;
      readonly index: number;
      readonly path: readonly string[] | null;
    }
  | { readonly kind: 'other' };

export interface Scopes {
  parentOf(node: Node): Node | undefined;
  /** Undefined: a global, or nothing at all. */
  lookUp(name: string, from: Node): Binding | undefined;
}

const SCOPES: ReadonlySet<string> = new Set([
  'Program',
  'BlockStatement',
  'ForStatement',
  'ForInStatement',
  'ForOfStatement',
  'SwitchStatement',
  'CatchClause',
  'StaticBlock',
  'ClassExpression',
  'ArrowFunctionExpression',
  'FunctionExpression',
  'FunctionDeclaration',
]);

export function scopesOf(program: Program): Scopes {
  const parents = new Map<Node, Node>();
  const names = new Map<Node, Map<string, Binding>>();
  const scopeAt = (node: Node, isScope: (node: Node) => boolean): Node => {
    let at = node;
    while (!isScope(at) && parents.has(at)) at = parents.get(at)!;
    return at;
  };
  const declare = (scope: Node, name: string, binding: Binding): void => {
    const known = names.get(scope) ?? new Map<string, Binding>();
    names.set(scope, known);
    known.set(name, binding);
  };
  const inBlock = (node: Node): Node => scopeAt(parents.get(node) ?? node, ({ type }) => SCOPES.has(type));
  const inFunction = (node: Node): Node =>
    scopeAt(node, (at) => isFunction(at) || at.type === 'Program' || at.type === 'StaticBlock');

  const declareAt = (node: Node): void => {
    if (isFunction(node)) {
      if (is(node, 'FunctionDeclaration') && node.id) declare(inBlock(node), node.id.name, { kind: 'function', node });
      if (is(node, 'FunctionExpression') && node.id) declare(node, node.id.name, { kind: 'function', node });
      for (const [index, parameter] of node.params.entries())
        for (const [name, path] of namesIn(parameter))
          declare(node, name, { kind: 'parameter', of: node, index, path });
    } else if (is(node, 'VariableDeclaration')) {
      const scope = node.kind === 'var' ? inFunction(node) : inBlock(node);
      const isLoop = ['ForInStatement', 'ForOfStatement'].includes(parents.get(node)?.type ?? '');
      for (const { id, init } of node.declarations) {
        for (const [name, path] of namesIn(id))
          declare(
            scope,
            name,
            isLoop ? { kind: 'other' } : { kind: 'variable', isConst: node.kind === 'const', init: init ?? null, path },
          );
      }
    } else if (is(node, 'ImportDeclaration')) {
      for (const specifier of node.specifiers) {
        const imported = is(specifier, 'ImportSpecifier')
          ? readExportedName(specifier.imported)
          : is(specifier, 'ImportDefaultSpecifier')
            ? 'default'
            : '*';
        declare(program, specifier.local.name, { kind: 'import', source: node.source.value, imported });
      }
    } else if (is(node, 'CatchClause') && node.param) {
      for (const [name] of namesIn(node.param)) declare(node, name, { kind: 'other' });
    } else if (is(node, 'ClassDeclaration', 'TSEnumDeclaration') && is(node.id, 'Identifier'))
      declare(inBlock(node), node.id.name, { kind: 'other' });
    else if (is(node, 'ClassExpression') && node.id) declare(node, node.id.name, { kind: 'other' });
  };
  for (const node of below(program)) {
    for (const child of childrenOf(node)) parents.set(child, node);
    declareAt(node);
  }

  return {
    parentOf: (node) => parents.get(node),
    lookUp(name, from) {
      for (let at: Node | undefined = from; at !== undefined; at = parents.get(at)) {
        const found = names.get(at)?.get(name);
        if (found !== undefined) return found;
      }
      return undefined;
    },
  };
}

/** `a`, or `'a'` in `export { x as 'a' }`. */
export function readExportedName(node: Node): string {
  return is(node, 'Identifier') ? node.name : is(node, 'Literal') ? String(node.value) : '';
}

/** Names that a pattern declares, each with the properties that lead to it. */
function* namesIn(
  pattern: Node,
  path: readonly string[] | null = [],
): Generator<readonly [string, readonly string[] | null]> {
  if (is(pattern, 'Identifier')) yield [pattern.name, path];
  else if (is(pattern, 'ObjectPattern')) {
    for (const property of pattern.properties) {
      if (is(property, 'RestElement')) yield* namesIn(property.argument, path?.length === 0 ? path : null);
      else {
        const key = keyName(property);
        yield* namesIn(property.value, path === null || key === null ? null : [...path, key]);
      }
    }
  } else if (is(pattern, 'AssignmentPattern')) yield* namesIn(pattern.left, path);
  else if (is(pattern, 'RestElement')) yield* namesIn(pattern.argument, null);
  else if (is(pattern, 'ArrayPattern'))
    for (const element of pattern.elements) if (element) yield* namesIn(element, null);
}
