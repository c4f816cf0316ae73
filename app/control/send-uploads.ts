/** Sends the folders that a plan mounts to a service on another machine. Bytes that the service has are not sent. */
import { realpath } from 'node:fs/promises';
import { contains } from '../../domain/language/text/paths.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { formatBytes } from '../../domain/units/bytes.ts';
import type { ServiceClient } from '../../http/service-client.ts';
import { ConnectionError, ServiceError } from '../../http/service-error.ts';
import { generateTar, measureFolder } from './pack-folder.ts';

/** A folder that changes is packed again. */
const TRIES = 3;

export interface SendTools {
  readonly client: ServiceClient;
  readonly onProgress: (line: string) => void;
}

/** Returns each folder once, and none that is within another one. Simulated VMs need their mounts too, as on this machine. */
export function listMounts({ scopes }: Plan): readonly string[] {
  const paths = new Set(scopes.flatMap(({ sandbox }) => sandbox.mounts.map(({ source }) => source.path)));
  return [...paths].filter((path) => ![...paths].some((other) => other !== path && contains(other, path)));
}

/** @returns the hashes of the tars, by the paths in the plan */
export async function sendFolders(
  paths: readonly string[],
  tools: SendTools,
): Promise<Readonly<Record<string, string>>> {
  const sent: [string, string][] = [];
  for (const path of paths) sent.push([path, await sendFolder(path, tools)]);
  return Object.fromEntries(sent);
}

/** Reads the folders, and sends nothing. @returns the hashes of their tars, by the paths in the plan */
export async function measureFolders(paths: readonly string[]): Promise<Readonly<Record<string, string>>> {
  const measured: [string, string][] = [];
  for (const path of paths) measured.push([path, (await measureFolder(await realpath(path))).sha256]);
  return Object.fromEntries(measured);
}

async function sendFolder(path: string, tools: SendTools): Promise<string> {
  const folder = await realpath(path);
  return await sendBlob(
    path,
    async () => ({ ...(await measureFolder(folder)), open: () => generateTar(folder) }),
    tools,
  );
}

export interface MeasuredBlob {
  readonly sha256: string;
  readonly sizeBytes: number;
  open(): AsyncIterable<Uint8Array>;
}

/**
 * @param path  the place of the bytes on this machine, for people
 * @param measure  is called again if the bytes have changed while they were sent
 * @returns their hash
 */
export async function sendBlob(
  path: string,
  measure: () => Promise<MeasuredBlob>,
  { client, onProgress }: SendTools,
): Promise<string> {
  for (let tried = 1; ; tried += 1) {
    const { sha256, sizeBytes, open } = await measure();
    if (await hasBlob(client, sha256)) return sha256;
    onProgress(`sending ${path} (${formatBytes(sizeBytes)})`);
    try {
      const body = { bytes: open(), sizeBytes };
      (await client.send({ method: 'PUT', path: ['blobs', sha256], body })).resume();
      return sha256;
    } catch (error) {
      const mayHelp =
        error instanceof ConnectionError || (error instanceof ServiceError && error.code === 'api/wrong-hash');
      if (!mayHelp || tried === TRIES) throw error;
      onProgress(`sending ${path} again: ${error.message}`);
    }
  }
}

async function hasBlob(client: ServiceClient, sha256: string): Promise<boolean> {
  try {
    (await client.read({ method: 'HEAD', path: ['blobs', sha256] })).resume();
    return true;
  } catch (error) {
    // An answer to HEAD has no problem in its body.
    if (error instanceof ServiceError && error.status === 404) return false;
    throw error;
  }
}
