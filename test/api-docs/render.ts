/** docs/reference/api.md: what each door of the package exports, from the docstrings. */
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { exportedNames, findDeclaration, moduleDoc, type Declaration } from './declarations.ts';

/** The shapes of the HTTP API are in its OpenAPI document, from which this file is generated. */
const GENERATED = 'dist/client-api/openapi.d.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** The doors of `exports` in package.json that have no page of their own for each name. */
const DOORS = [
  { door: 'voidbox', file: 'dist/sdk/index.d.ts', page: 'typescript.md' },
  { door: 'voidbox/client', file: 'dist/client-api/index.d.ts', page: 'client.md' },
  { door: 'voidbox/sandbox', file: 'dist/sandbox-api/index.d.ts', page: 'sandbox-api.md' },
  { door: 'voidbox/temporal', file: 'dist/workers/temporal-plugin.d.ts', page: 'temporal-plugin.md' },
  { door: 'voidbox/temporal/workflows', file: 'dist/workflows/plugin.d.ts', page: 'temporal-plugin.md' },
] as const;

/** Longer lists have pages of their own, such as errors.md. */
const MAX_WORDS = 20;

export function renderApiDocs(): string {
  return [
    '# API\n\nEvery name that the package exports, with its declaration. This page is generated from the docstrings; the pages that it links to explain how the parts work together. The names of `voidbox/skill-kit` are in [skill-kit.md](skill-kit.md).\n',
    ...DOORS.map(renderDoor),
  ].join('\n');
}

function renderDoor({ door, file, page }: (typeof DOORS)[number]): string {
  const path = join(ROOT, file);
  const names = exportedNames(path);
  const all = names.map((name) => {
    const found = findDeclaration(path, name);
    if (found === null) throw new Error(`${file} exports ${name}, which is declared nowhere`);
    return { ...found, name, text: wordsOf(found) ?? found.text };
  });
  const shown = all.filter(isWritten);
  const behind = referredTo(path, shown).filter(isWritten);
  const about = moduleDoc(path);
  return [
    `## \`${door}\`\n\n${about === '' ? '' : `${about}\n\n`}Explained in [${page}](${page}).\n`,
    ...shown.map((one) => renderDeclaration(one, '###')),
    ...(behind.length === 0 ? [] : [`### Types that these use\n\nNot exported by name.\n`]),
    ...behind.map((one) => renderDeclaration(one, '####')),
  ].join('\n');
}

function isWritten({ file }: Declaration): boolean {
  return !file.endsWith(GENERATED);
}

function renderDeclaration({ name, doc, text }: Declaration, heading: string): string {
  return `${heading} \`${name}\`\n\n${doc === '' ? '' : `${doc}\n\n`}\`\`\`ts\n${text.replaceAll('    ', '  ')}\n\`\`\`\n`;
}

/** Types of the door's own folder that the texts name, what those name in turn, and the unions of words from elsewhere. */
function referredTo(door: string, shown: readonly Declaration[]): readonly Declaration[] {
  const known = new Map(shown.map((one) => [`${one.file}#${one.name}`, one]));
  const behind: Declaration[] = [];
  const isOwn = ({ file }: Declaration): boolean => dirname(file).startsWith(dirname(door));
  const queue = shown.filter(isOwn);
  for (let one = queue.shift(); one !== undefined; one = queue.shift()) {
    for (const word of new Set(codeOf(one.text).match(/\b[A-Za-z_]\w*\b/g) ?? [])) {
      const found = findDeclaration(one.file, word);
      if (found === null || known.has(`${found.file}#${found.name}`)) continue;
      known.set(`${found.file}#${found.name}`, found);
      const words = wordsOf(found);
      if (words === null && (!isOwn(found) || !/^(?:interface|type|abstract class|class) /.test(found.text))) continue;
      behind.push({ ...found, text: words ?? found.text });
      if (words === null) queue.push(found);
    }
  }
  return behind;
}

/** `type X = (typeof XS)[number]` with the words of the list; null for another declaration. */
function wordsOf({ file, name, text }: Declaration): string | null {
  const list = /^type \w+ = \(typeof (\w+)\)\[number\];$/.exec(text)?.[1];
  const words = list === undefined ? null : (findDeclaration(file, list)?.text.match(/'[^']*'/g) ?? null);
  return words === null || words.length > MAX_WORDS ? null : `type ${name} = ${words.join(' | ')};`;
}

function codeOf(text: string): string {
  return text.replace(/\/\*[^]*?\*\//g, '').replace(/'[^'\n]*'/g, '');
}
