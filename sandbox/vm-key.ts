/** Names of VMs: the key as text, and the folder that its keeper works in. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { VmKey } from '../activities/ports.ts';

/** `run/scope/generation`. */
export function vmKeyText(key: VmKey): string {
  return `${key.runId}/${key.scope}/${key.generation}`;
}

/** Null for a text that no key has. */
export function parseVmKey(text: string): VmKey | null {
  const match = /^([^/]+)\/([^/]+)\/(\d{1,9})$/.exec(text);
  return match === null ? null : { runId: match[1] as string, scope: match[2] as string, generation: Number(match[3]) };
}

/** The run directory of a key; keys may be long and socket paths may not, so its name is a hash. */
export function vmRunDir(vmsDir: string, key: VmKey): string {
  return join(vmsDir, createHash('sha256').update(vmKeyText(key)).digest('hex').slice(0, 16));
}
