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
  /** The kind of virtio device without which no guest needs the module; null: every guest needs it. */
  readonly device: number | null;
}

export interface WantedModule {
  readonly name: string;
  /** As in {@link LoadableModule}, also for modules that only this one depends on. */
  readonly device: number | null;
}

/**
 * Collects the wanted modules and their dependencies, uncompressed; modules that the kernel has built in are left out.
 * `modulesRoot` contains one folder, which is named after the kernel's release.
 */
export async function collectModules(
  env: Environment,
  modulesRoot: string,
  wanted: readonly WantedModule[],
  busybox: string,
): Promise<LoadableModule[]> {
  const files = await indexModules(modulesRoot);
  const read = async (name: string): Promise<Buffer | null> => {
    const file = files.get(name);
    return file === undefined ? null : await readModule(env, file, busybox);
  };
  return await orderModules(wanted, read);
}

/**
 * Puts modules behind those on which they depend.
 * @param read  returns a module's content; null if the kernel has it built in
 */
export async function orderModules(
  wanted: readonly WantedModule[],
  read: (name: string) => Promise<Buffer | null>,
): Promise<LoadableModule[]> {
  const taken = new Map<string, LoadableModule>();
  const addModule = async ({ name, device }: WantedModule): Promise<void> => {
    const known = taken.get(name);
    if (known !== undefined && (known.device === null || known.device === device)) return;
    const content = known?.content ?? (await read(name));
    if (content === null) return;
    for (const dependency of moduleDependencies(content)) await addModule({ name: dependency, device });
    // A module that two kinds of devices need is loaded in every guest. It keeps its place in the order.
    taken.set(name, {
      name: `${name}.ko`,
      content: known?.content ?? withoutSignature(content),
      device: known === undefined ? device : null,
    });
  };
  for (const module of wanted) await addModule(module);
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
