/** The process that runs a definition's code: `definition-process.js BUNDLE`, with the reply on descriptor 3. */
import { writeSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { findPackageRoot } from '../../setup/package-root.ts';
import { listenForPlaces } from '../places.ts';
import type { Place, Reply } from './reply.ts';
import { placeInStack } from './stack-place.ts';

const REPLY_DESCRIPTOR = 3;
/** The builders, and in a checkout also their sources, which source maps name. */
const OWN_FOLDERS = [`${join(findPackageRoot(), 'dist/sdk')}/`, `${join(findPackageRoot(), 'sdk')}/`];

const places = new Map<object, Place | null>();
const stagesOf = new Map<object, readonly object[]>();

function placeOf(stack: string): Place | null {
  return placeInStack(stack, (file) => OWN_FOLDERS.some((folder) => file.startsWith(folder)));
}

async function replyOf(bundle: string): Promise<Reply> {
  listenForPlaces((made, stack, stages) => {
    places.set(made, placeOf(stack));
    stagesOf.set(made, stages);
  });
  let exports: Readonly<Record<string, unknown>>;
  try {
    exports = (await import(pathToFileURL(bundle).href)) as Record<string, unknown>;
  } catch (error) {
    const isError = error instanceof Error;
    return {
      kind: 'unusable',
      message: `the definition throws when it is loaded: ${isError ? `${error.name}: ${error.message}` : String(error)}`,
      remedy: 'correct the code at this place; it runs each time the definition is validated or run',
      place: isError ? placeOf(error.stack ?? '') : null,
    };
  }
  return replyOfExports(exports);
}

function replyOfExports(exports: Readonly<Record<string, unknown>>): Reply {
  const createUnusableReply = (message: string): Reply => ({
    kind: 'unusable',
    message,
    remedy: 'write `export default defineWorkflow({ … })` or `export default definePipeline({ … })`',
    place: null,
  });
  if (!Object.hasOwn(exports, 'default')) {
    const names = Object.keys(exports);
    return createUnusableReply(
      `the module has no default export${names.length === 0 ? '' : `; it exports ${names.slice(0, 8).join(', ')}`}`,
    );
  }
  const found = exports['default'];
  if (typeof found === 'object' && found !== null && stagesOf.has(found) && isDefinition(found))
    return {
      kind: 'definition',
      source: found.source,
      place: places.get(found) ?? null,
      stages: stagesOf.get(found)!.map((stage) => places.get(stage) ?? null),
    };
  return createUnusableReply(`the default export is ${describe(found)}, not a definition`);
}

function isDefinition(value: object): value is { readonly source: string } {
  return 'source' in value && typeof value.source === 'string';
}

function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value === 'function') return 'a function';
  if (value instanceof Promise) return 'a promise; await it';
  if (Array.isArray(value)) return 'a list';
  if (typeof value !== 'object') return `a ${typeof value}`;
  const kind: unknown = 'kind' in value ? value.kind : undefined;
  if (kind === 'step' || kind === 'box') return `a ${kind}`;
  if (kind === 'fan-out') return 'a fan-out';
  return 'an object that neither `defineWorkflow` nor `definePipeline` made';
}

function send(reply: Reply): void {
  const bytes = Buffer.from(JSON.stringify(reply));
  for (let at = 0; at < bytes.length;) {
    try {
      at += writeSync(REPLY_DESCRIPTOR, bytes, at);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
    }
  }
}

Error.stackTraceLimit = 100;
send(await replyOf(process.argv[2]!));
// Exits at once, even if the definition left timers and sockets open.
process.exit(0);
