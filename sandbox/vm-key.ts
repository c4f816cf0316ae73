/** The folder that the keeper of a VM works in. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { VmKey } from '../activities/ports/sandbox.ts';
import { vmKeyText } from '../domain/run/vm-key.ts';

/** The run directory of a key; keys may be long and socket paths may not, so its name is a hash. */
export function vmRunDir(vmsDir: string, key: VmKey): string {
  return join(vmsDir, createHash('sha256').update(vmKeyText(key)).digest('hex').slice(0, 16));
}
