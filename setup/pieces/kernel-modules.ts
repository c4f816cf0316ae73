/** Picks kernel modules with all their dependencies, in an order in which they can be loaded. */
import { readFile, readdir } from 'node:fs/promises';
import { spawn } from 'node:child_process';
import { basename, join } from 'node:path';
import type { Environment } from '../environment.ts';
import { SetupError } from '../setup-error.ts';

export interface LoadableModule {
  /** The file name without the suffix of a compression: `virtio_blk.ko`. */
  readonly name: string;
  readonly content: Buffer;
}

/**
 * Collects the wanted modules and their dependencies, uncompressed; modules that the kernel has built in are left out.
 * `modulesRoot` contains one folder, which is named after the kernel's release.
 */
export async function collectModules(
  env: Environment,
  modulesRoot: string,
  wanted: readonly string[],
  busybox: string,
): Promise<LoadableModule[]> {
  const files = await indexModules(modulesRoot);
  const taken = new Map<string, LoadableModule>();
  const addModule = async (name: string): Promise<void> => {
    const file = files.get(name);
    if (file === undefined || taken.has(name)) return;
    const content = await readModule(env, file, busybox);
    for (const dependency of moduleDependencies(content)) await addModule(dependency);
    taken.set(name, { name: `${name}.ko`, content: withoutSignature(content) });
  };
  for (const name of wanted) await addModule(name);
  return [...taken.values()];
}

/** Indexes files by module name, because the kernel treats `-` and `_` as equal. */
async function indexModules(modulesRoot: string): Promise<Map<string, string>> {
  const entries = await readdir(modulesRoot, { recursive: true });
  const modules = entries.filter((entry) => /\.ko(?:\.\w+)?$/.test(entry));
  return new Map(
    modules.map((entry) => [
      basename(entry)
        .replace(/\.ko.*$/, '')
        .replaceAll('-', '_'),
      join(modulesRoot, entry),
    ]),
  );
}

/** Reads names from the `depends=` entry that the build writes into each module. */
export function moduleDependencies(content: Buffer): string[] {
  const start = content.indexOf('\0depends=');
  if (start < 0) return [];
  const from = start + '\0depends='.length;
  const text = content.toString('latin1', from, content.indexOf(0, from));
  return text.split(',').flatMap((name) => (name === '' ? [] : [name.replaceAll('-', '_')]));
}

const SIGNATURE_END = Buffer.from('~Module signature appended~\n');
/**
 * The size of `struct module_signature`, which precedes the marker; its last four bytes are the length of the signature
 * before it.
 */
const SIGNATURE_INFO_BYTES = 12;

/**
 * Removes the signature, because no guest checks it: the modules come with its agent. An emulated CPU takes a third of
 * a second to check all of them.
 */
export function withoutSignature(content: Buffer): Buffer {
  const infoEnd = content.length - SIGNATURE_END.length;
  if (infoEnd < SIGNATURE_INFO_BYTES || !content.subarray(infoEnd).equals(SIGNATURE_END)) return content;
  const end = infoEnd - SIGNATURE_INFO_BYTES - content.readUInt32BE(infoEnd - 4);
  return end < 0 ? content : content.subarray(0, end);
}

async function readModule(env: Environment, file: string, busybox: string): Promise<Buffer> {
  if (file.endsWith('.ko')) return readFile(file);
  const tool = file.endsWith('.xz') ? 'xzcat' : file.endsWith('.gz') ? 'zcat' : null;
  if (tool === null)
    throw new SetupError(`The kernel's modules are compressed in an unknown way: ${basename(file)}.`, null);
  return new Promise((resolve, reject) => {
    const child = spawn(busybox, [tool, file], { env: env.variables, stdio: ['ignore', 'pipe', 'inherit'] });
    const parts: Buffer[] = [];
    child.stdout.on('data', (part: Buffer) => parts.push(part));
    child.once('error', reject);
    child.once('close', (code) =>
      code === 0
        ? resolve(Buffer.concat(parts))
        : reject(new SetupError(`busybox ${tool} can't unpack ${basename(file)}.`, null)),
    );
  });
}
