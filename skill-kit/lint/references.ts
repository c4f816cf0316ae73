/** Which files below `references/` nothing in the source mentions. */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { listRegularFilesBelow } from '../../setup/cache/files-below.ts';
import { contentOf, type Sources } from './sources.ts';
import { unwrap, below, is, isFunction, memberName, type Node } from './syntax.ts';

/**
 * @returns paths below `references/`, or none where some file is loaded by a name that is made at run time
 * @throws CodedError `skill/unusable` when the folder cannot be read
 */
export function orphanReferences(sources: Sources, folder: string): readonly string[] {
  const root = join(folder, 'references');
  const files = referencesIn(root);
  const nodes = sources.files.flatMap(({ program }) => [...below(program)]);
  const loads = nodes.flatMap((node) => findLoadedPatterns(sources, node));
  if (loads.includes(null)) return [];
  const texts = nodes.flatMap((node) => textIn(node) ?? []);
  const isMentioned = (file: string): boolean =>
    texts.some((text) => mentions(text, file)) || loads.some((load) => load !== null && load.test(file));
  // A text that is loaded may send its reader to others.
  const used = new Set(files.filter(isMentioned));
  for (const file of used) {
    const text = contentOf(join(root, file)) ?? '';
    for (const other of files) if (mentions(text, other)) used.add(other);
  }
  return files.filter((file) => !used.has(file));
}

function referencesIn(root: string): readonly string[] {
  try {
    if (statSync(root, { throwIfNoEntry: false })?.isDirectory() !== true) return [];
    return listRegularFilesBelow(root);
  } catch (cause) {
    throw new CodedError('skill/unusable', `${root} cannot be read: ${(cause as Error).message}`, { cause });
  }
}

function textIn(node: Node): string | null {
  if (is(node, 'Literal')) return typeof node.value === 'string' ? node.value : null;
  return is(node, 'TemplateElement') ? node.value.cooked : null;
}

/** Finds a file's path or its name, unless it is the end of a longer name. */
function mentions(text: string, file: string): boolean {
  const name = file.slice(file.lastIndexOf('/') + 1).replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`(?<![\\w-])${name}(?![\\w-])`).test(text);
}

/** Returns the patterns of names that the call may load: no pattern, some, or null for any name. */
function findLoadedPatterns(sources: Sources, node: Node): readonly (RegExp | null)[] {
  if (!is(node, 'CallExpression')) return [];
  const callee = unwrap(node.callee);
  const origin =
    is(callee, 'MemberExpression') && ['load', 'asset'].includes(memberName(callee) ?? '')
      ? sources.originOf(callee.object)
      : null;
  if (origin?.kind === 'parameter' && node.arguments[0] !== undefined) return [patternOf(sources, node.arguments[0])];
  // Handed to code that is not ours to read.
  const isHandedOn = node.arguments.some((argument) => {
    const given = sources.originOf(argument);
    return given.kind === 'parameter' && given.path.at(-1) === 'refs';
  });
  return isHandedOn && !isFunction(sources.valueOf(callee)) ? [null] : [];
}

function patternOf(sources: Sources, name: Node): RegExp | null {
  const escape = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const text = sources.textOf(name);
  if (text !== null) return new RegExp(`^${escape(text)}$`);
  const value = sources.valueOf(name);
  if (!is(value, 'TemplateLiteral')) return null;
  return new RegExp(`^${value.quasis.map(({ value: { cooked } }) => escape(cooked ?? '')).join('.*')}$`);
}
