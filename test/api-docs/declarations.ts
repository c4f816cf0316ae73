/**
 * The declarations of a module of the project, as the compiler wrote them into its `.d.ts`: names, texts, docstrings.
 */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseAst } from 'rolldown/parseAst';

export interface Declaration {
  readonly name: string;
  readonly file: string;
  /** Without `export` and `declare`; a function with overloads has one text for each, joined by lines. */
  readonly text: string;
  /** The docstring of the first declaration of that name, as Markdown. */
  readonly doc: string;
}

interface Module {
  readonly declarations: ReadonlyMap<string, Declaration>;
  /** The source of each local name; packages are left out. */
  readonly imports: ReadonlyMap<string, { readonly file: string; readonly name: string }>;
  readonly exports: readonly { readonly name: string; readonly file: string; readonly local: string }[];
  readonly doc: string;
}

const modules = new Map<string, Module>();

/**
 * The declaration that a name of a module leads to, through imports and re-exports; null for declarations of packages.
 */
export function findDeclaration(file: string, name: string): Declaration | null {
  const { declarations, imports, exports } = readModule(file);
  const own = declarations.get(name);
  if (own !== undefined) return own;
  const exported = exports.find((one) => one.name === name && one.file !== file);
  const from = imports.get(name) ?? (exported === undefined ? null : { file: exported.file, name: exported.local });
  return from === null ? null : findDeclaration(from.file, from.name);
}

/** In the order of the module's text. */
export function exportedNames(file: string): readonly string[] {
  return readModule(file).exports.map(({ name }) => name);
}

export function moduleDoc(file: string): string {
  return readModule(file).doc;
}

function readModule(file: string): Module {
  const known = modules.get(file);
  if (known !== undefined) return known;
  const read = parseModule(file);
  modules.set(file, read);
  return read;
}

function parseModule(file: string): Module {
  const code = readFileSync(file, 'utf8');
  const declarations = new Map<string, Declaration>();
  const imports = new Map<string, { file: string; name: string }>();
  const exports: { name: string; file: string; local: string }[] = [];
  const at = (specifier: string): string | null =>
    /^\.\.?\//.test(specifier) ? join(dirname(file), specifier.replace(/\.ts$/, '.d.ts')) : null;
  let before = 0;
  for (const node of parseAst(code, { lang: 'dts' }, file).body) {
    const comment = docBefore(code.slice(before, node.start));
    before = node.end;
    if (node.type === 'ImportDeclaration') {
      const source = at(node.source.value);
      for (const one of source === null ? [] : node.specifiers)
        if (one.type === 'ImportSpecifier')
          imports.set(one.local.name, {
            file: source!,
            name: 'name' in one.imported ? one.imported.name : one.local.name,
          });
    } else if (node.type === 'ExportNamedDeclaration' && node.declaration === null) {
      const source = node.source === null ? file : at(node.source.value);
      for (const one of source === null ? [] : node.specifiers)
        if ('name' in one.exported && 'name' in one.local)
          exports.push({ name: one.exported.name, file: source!, local: one.local.name });
    } else {
      const isExported = node.type === 'ExportNamedDeclaration';
      const declared = isExported ? node.declaration! : node;
      const name = nameOf(declared);
      if (name === null) continue;
      const text = code.slice(declared.start, declared.end).replace(/^declare /, '');
      const earlier = declarations.get(name);
      declarations.set(name, {
        name,
        file,
        text: earlier === undefined ? text : `${earlier.text}\n${text}`,
        doc: earlier?.doc || comment,
      });
      if (isExported && earlier === undefined) exports.push({ name, file, local: name });
    }
  }
  return { declarations, imports, exports, doc: docOfModule(code) };
}

/** A docstring before the imports belongs to the module; without imports it belongs to the first declaration. */
function docOfModule(code: string): string {
  const end = code.startsWith('/**') ? code.indexOf('*/') + 2 : 0;
  return /^\s*(?:im|ex)port (?:type )?\{/.test(code.slice(end)) ? docBefore(code.slice(0, end)) : '';
}

function nameOf(node: object): string | null {
  const { id, declarations } = node as { id?: { name?: string }; declarations?: readonly { id: { name?: string } }[] };
  return id?.name ?? declarations?.[0]?.id.name ?? null;
}

/** The text of the last `/** … *\/` before a declaration; examples keep their code. */
function docBefore(text: string): string {
  const comment = /\/\*\*((?:(?!\*\/)[^])*)\*\/\s*$/.exec(text)?.[1] ?? '';
  return (
    comment
      .split('\n')
      .map((line) => line.replace(/^\s*\* ?/, '').trimEnd())
      .join('\n')
      .replace(/^@example$/gm, 'Example:\n')
      // In Markdown, an empty line separates a list from its paragraph.
      .replace(/(?<!\n)\n@(?=param|returns|throws)/, '\n\n@')
      .replace(/^@param (\S+) +/gm, '- `$1`: ')
      .replace(/^@returns +/gm, '- returns: ')
      .replace(/^@throws +/gm, '- throws: ')
      .trim()
  );
}
