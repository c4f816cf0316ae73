/** The files of a skill: its entry and what that imports by relative paths, parsed, and what an expression in them comes from. */
import { existsSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { readFileWithin } from '../../files/open-file.ts';
import { type Binding, readExportedName, type Scopes, scopesOf } from './scope.ts';
import {
  unwrap,
  below,
  type FunctionNode,
  is,
  isFunction,
  keyName,
  literalText,
  memberName,
  type Node,
  parse,
  type Program,
} from './syntax.ts';

export const SKILL_KIT = 'voidbox/skill-kit';

export interface SourceFile {
  /** Absolute. */
  readonly path: string;
  readonly text: string;
  readonly program: Program;
  readonly scopes: Scopes;
}

/** From 1 both, columns in UTF-16 units. */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

export interface ParseFailure extends Place {
  readonly message: string;
}

/** The origin of an expression, after following aliases, imports and wrappers. */
export type Origin =
  /** An export of a package; `*` is its namespace. */
  | { readonly kind: 'package'; readonly source: string; readonly name: string }
  | { readonly kind: 'value'; readonly node: Node }
  /** A function's parameter, or properties of it. */
  | { readonly kind: 'parameter'; readonly of: FunctionNode; readonly index: number; readonly path: readonly string[] }
  | { readonly kind: 'unknown' };

const UNKNOWN: Origin = { kind: 'unknown' };
/** Chains of aliases longer than this are not followed; a cycle of them would not end. */
const MAX_HOPS = 50;

export class Sources {
  readonly files: readonly SourceFile[];
  readonly failures: readonly ParseFailure[];
  readonly #byPath: ReadonlyMap<string, SourceFile>;
  readonly #owners = new WeakMap<Node, SourceFile>();

  private constructor(files: readonly SourceFile[], failures: readonly ParseFailure[]) {
    this.files = files;
    this.failures = failures;
    this.#byPath = new Map(files.map((file) => [file.path, file]));
    for (const file of files) for (const node of below(file.program)) this.#owners.set(node, file);
  }

  /** Skips unreadable files, because loading the skill reports the reason. */
  static read(entry: string): Sources {
    const files: SourceFile[] = [];
    const failures: ParseFailure[] = [];
    const paths = new Set([resolve(entry)]);
    for (const path of paths) {
      const text = contentOf(path);
      if (text === null) continue;
      const program = parseSource(path, text);
      if ('message' in program) {
        failures.push(program);
        continue;
      }
      files.push({ path, text, program, scopes: scopesOf(program) });
      for (const specifier of importsOf(program)) {
        const imported = localFile(path, specifier);
        if (imported !== null) paths.add(imported);
      }
    }
    return new Sources(files, failures);
  }

  fileOf(node: Node): SourceFile {
    return this.#owners.get(node)!;
  }

  placeOf(node: Node, offset = 0): Place {
    const { path, text } = this.fileOf(node);
    return placeIn(path, text, node.start + offset);
  }

  /** The nodes around this one, the nearest first. */
  *around(node: Node): Generator<Node> {
    const { scopes } = this.fileOf(node);
    for (let at = scopes.parentOf(node); at !== undefined; at = scopes.parentOf(at)) yield at;
  }

  originOf(node: Node): Origin {
    return this.#origin(node, 0);
  }

  /** Returns the node of the value: an object, a function, a call …; null if it is unknown. */
  valueOf(node: Node): Node | null {
    const origin = this.originOf(node);
    return origin.kind === 'value' ? origin.node : null;
  }

  /** The export of the skill-kit that this is, under its own name. */
  kitExport(node: Node): string | null {
    const origin = this.originOf(node);
    return origin.kind === 'package' && origin.source === SKILL_KIT ? origin.name : null;
  }

  /** A text that is known without running anything. */
  textOf(node: Node): string | null {
    const value = this.valueOf(node);
    if (value === null) return null;
    if (is(value, 'BinaryExpression') && value.operator === '+') {
      const [left, right] = [this.textOf(value.left), this.textOf(value.right)];
      return left === null || right === null ? null : left + right;
    }
    if (!is(value, 'TemplateLiteral')) return literalText(value);
    const gaps = value.expressions.map((gap) => this.textOf(gap));
    if (gaps.includes(null)) return null;
    return value.quasis.map(({ value: { cooked } }, index) => `${cooked}${gaps[index] ?? ''}`).join('');
  }

  /** The initial value of a variable that may be assigned again; builders are mutated, so that it stays the same builder. */
  firstValueOf(node: Node): Node | null {
    const inner = unwrap(node);
    const binding = is(inner, 'Identifier') ? this.#binding(inner.name, inner) : undefined;
    if (binding?.kind === 'variable' && !binding.isConst && binding.path?.length === 0) return binding.init;
    return this.valueOf(node);
  }

  #binding(name: string, from: Node): Binding | undefined {
    return this.fileOf(from).scopes.lookUp(name, from);
  }

  #origin(node: Node, hops: number): Origin {
    if (hops > MAX_HOPS) return UNKNOWN;
    const inner = unwrap(node);
    if (is(inner, 'Identifier')) return this.#nameOrigin(inner.name, inner, hops);
    if (is(inner, 'MemberExpression')) {
      const name = memberName(inner);
      return name === null ? UNKNOWN : this.#property(this.#origin(inner.object, hops + 1), name, hops);
    }
    if (is(inner, 'CallExpression') && this.#isFreeze(inner.callee))
      return inner.arguments[0] ? this.#origin(inner.arguments[0], hops + 1) : UNKNOWN;
    return { kind: 'value', node: inner };
  }

  #nameOrigin(name: string, from: Node, hops: number): Origin {
    const binding = this.#binding(name, from);
    switch (binding?.kind) {
      case 'import':
        return this.#importOrigin(this.fileOf(from), binding.source, binding.imported, hops);
      case 'variable': {
        if (!binding.isConst || binding.init === null || binding.path === null) return UNKNOWN;
        let origin = this.#origin(binding.init, hops + 1);
        for (const part of binding.path) origin = this.#property(origin, part, hops);
        return origin;
      }
      case 'function':
        return { kind: 'value', node: binding.node };
      case 'parameter':
        return binding.path === null
          ? UNKNOWN
          : { kind: 'parameter', of: binding.of, index: binding.index, path: binding.path };
      case 'other':
      case undefined:
        return UNKNOWN;
    }
  }

  #property(origin: Origin, name: string, hops: number): Origin {
    if (origin.kind === 'parameter') return { ...origin, path: [...origin.path, name] };
    if (origin.kind === 'package' && origin.name === '*') return { ...origin, name };
    if (origin.kind === 'value' && is(origin.node, 'Program'))
      return this.#exportOrigin(this.fileOf(origin.node), name, hops);
    if (origin.kind !== 'value' || !is(origin.node, 'ObjectExpression')) return UNKNOWN;
    const found = propertyOf(origin.node, name);
    return found === null ? UNKNOWN : this.#origin(found, hops + 1);
  }

  #importOrigin(file: SourceFile, source: string, imported: string, hops: number): Origin {
    if (!source.startsWith('.')) return { kind: 'package', source, name: imported };
    const target = this.#byPath.get(localFile(file.path, source) ?? '');
    if (target === undefined) return UNKNOWN;
    return imported === '*' ? { kind: 'value', node: target.program } : this.#exportOrigin(target, imported, hops + 1);
  }

  #exportOrigin(file: SourceFile, name: string, hops: number): Origin {
    if (hops > MAX_HOPS) return UNKNOWN;
    for (const statement of file.program.body) {
      if (is(statement, 'ExportDefaultDeclaration') && name === 'default') {
        const { declaration } = statement;
        return isFunction(declaration) ? { kind: 'value', node: declaration } : this.#origin(declaration, hops + 1);
      }
      if (is(statement, 'ExportNamedDeclaration')) {
        for (const { local, exported } of statement.specifiers) {
          if (readExportedName(exported) !== name) continue;
          return statement.source
            ? this.#importOrigin(file, statement.source.value, readExportedName(local), hops + 1)
            : this.#nameOrigin(readExportedName(local), file.program, hops + 1);
        }
        if (listDeclared(statement.declaration).includes(name)) return this.#nameOrigin(name, file.program, hops + 1);
      }
      if (is(statement, 'ExportAllDeclaration') && statement.exported && readExportedName(statement.exported) === name)
        return this.#importOrigin(file, statement.source.value, '*', hops + 1);
    }
    for (const statement of file.program.body) {
      if (!is(statement, 'ExportAllDeclaration') || statement.exported || name === 'default') continue;
      const origin = this.#importOrigin(file, statement.source.value, name, hops + 1);
      if (origin.kind !== 'unknown') return origin;
    }
    return UNKNOWN;
  }

  #isFreeze(callee: Node): boolean {
    return (
      is(callee, 'MemberExpression') &&
      is(callee.object, 'Identifier') &&
      callee.object.name === 'Object' &&
      memberName(callee) === 'freeze'
    );
  }
}

/** Returns the value written for a key; null if a later spread or computed key may override it. */
export function propertyOf(object: Node, name: string): Node | null {
  if (!is(object, 'ObjectExpression')) return null;
  let found: Node | null = null;
  for (const property of object.properties) {
    if (is(property, 'SpreadElement')) found = null;
    else {
      const key = keyName(property);
      if (key === name && property.kind === 'init') found = property.value;
      else if (key === null) found = null;
    }
  }
  return found;
}

export function placeIn(file: string, text: string, offset: number): Place {
  const before = text.slice(0, offset).split(/\r\n|[\n\r\u2028\u2029]/);
  return { file, line: before.length, column: before.at(-1)!.length + 1 };
}

function listDeclared(declaration: Node | null | undefined): readonly string[] {
  if (is(declaration, 'VariableDeclaration'))
    return declaration.declarations.flatMap(({ id }) => (is(id, 'Identifier') ? [id.name] : []));
  return is(declaration, 'FunctionDeclaration') && declaration.id ? [declaration.id.name] : [];
}

const MOST_SOURCE_BYTES = 64 * 1024 * 1024;

/** Null if the file cannot be read. */
export function contentOf(path: string): string | null {
  try {
    return readFileWithin(path, { roots: null, mostBytes: MOST_SOURCE_BYTES }).toString('utf8');
  } catch {
    return null;
  }
}

function parseSource(path: string, text: string): Program | ParseFailure {
  try {
    return parse(path, text);
  } catch (error) {
    const { code, message, pos } = error as Error & { readonly code?: string; readonly pos?: number };
    if (code !== 'PARSE_ERROR') throw error;
    // The first line counts the mistakes, and the last lines show the source.
    return { message: (message.split('\n')[1] ?? message).trim(), ...placeIn(path, text, pos ?? 0) };
  }
}

/** Reads only statements, and skips imports of types. */
function* importsOf(program: Program): Generator<string> {
  for (const statement of program.body) {
    if (is(statement, 'ImportDeclaration') && statement.importKind !== 'type') yield statement.source.value;
    if (
      is(statement, 'ExportNamedDeclaration', 'ExportAllDeclaration') &&
      statement.source &&
      statement.exportKind !== 'type'
    )
      yield statement.source.value;
  }
}

const SOURCE_FILE = /\.[cm]?[jt]sx?$/;
const EXTENSIONS = ['', '.ts', '.tsx', '.mts', '.js', '.mjs', '/index.ts', '/index.js'];

/** The file that a relative import means, `.js` for the `.ts` that it is compiled from included; null for all others. */
function localFile(from: string, specifier: string): string | null {
  if (!specifier.startsWith('.')) return null;
  const wanted = resolve(dirname(from), specifier);
  const candidates = [
    ...EXTENSIONS.map((extension) => wanted + extension),
    wanted.replace(/\.([cm]?)js(x?)$/, '.$1ts$2'),
  ];
  return candidates.find((path) => SOURCE_FILE.test(path) && existsSync(path) && statSync(path).isFile()) ?? null;
}
