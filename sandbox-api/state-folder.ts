/**
 * The folder of run directories. It is made safe from other users of this machine before any file of a VM is put into
 * it.
 */
import { existsSync, lstatSync } from 'node:fs';
import { CodedError } from '../domain/errors/coded-error.ts';
import { makeOwnFolder } from '../setup/cache/own-folder.ts';
import { makePrivateDir, vmsDir } from '../store/state-folder.ts';
import { keepStateFormatWithAdvice } from '../store/state-format.ts';

/** Group and others may write. */
const WRITABLE_BY_OTHERS = 0o022;

/**
 * Makes the folder of VMs below a state folder, if absent. A user who could write there could replace a keeper's
 * socket.
 * @throws CodedError `host/not-ready`, `host/state-format`; SetupError
 */
export async function makeVmsFolder(stateDir: string): Promise<string> {
  if (existsSync(stateDir)) refuseForeign(stateDir);
  makeOwnFolder({ path: stateDir, what: 'state folder', variable: 'VOIDBOX_STATE_DIR' });
  keepStateFormatWithAdvice(stateDir);
  const folder = vmsDir(stateDir);
  await makePrivateDir(folder);
  for (const path of [stateDir, folder]) refuseForeign(path);
  return folder;
}

function refuseForeign(path: string): void {
  const found = lstatSync(path);
  const uid = process.getuid?.() ?? found.uid;
  if (!found.isDirectory() || found.uid !== uid) throw refusal(path, `it is not a folder of this user (uid ${uid})`);
  if ((found.mode & WRITABLE_BY_OTHERS) !== 0) throw refusal(path, 'other users can write to it', `chmod go-w ${path}`);
}

function refusal(path: string, why: string, remedy = 'name another state folder: export VOIDBOX_STATE_DIR=…'): Error {
  return new CodedError('host/not-ready', `${path} cannot hold VMs: ${why}: ${remedy}`);
}
