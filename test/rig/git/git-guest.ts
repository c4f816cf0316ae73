/** The shell of a simulated guest: scripts of workspaces run by git of this host, in a folder for each VM. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import {
  CHANGES_UNFIT,
  CHECKED_OUT_SCRIPT,
  FILES_WRITTEN_SCRIPT,
  MEASURE_IGNORED_SCRIPT,
  UNPACK_SCRIPT,
} from '../../../activities/workspace/scripts.ts';
import type { MockFiles } from '../../../sandbox/mock/files.ts';
import type { MockProgram } from '../../../sandbox/mock/programs.ts';

export const GUEST_PATH = '/workspace/repository';
export const GIT_PATH = '/usr/local/bin:/usr/bin:/bin';

export type GuestScript = 'checked-out' | 'unpack' | 'collect';

export interface GitGuest {
  readonly shell: MockProgram;
  /** The repository of a VM, on this host. */
  folderOf(files: MockFiles): string;
}

export interface GitGuestOptions {
  /** Contains the folders of guests, and is the home of git. */
  readonly root: string;
  /** Called before a script runs. */
  readonly onScript?: (script: GuestScript) => void;
  /** If true, the guest sends more bytes than a workspace accepts instead of its pack. */
  readonly isFlooding?: () => boolean;
}

export function createGitGuest({ root, onScript, isFlooding }: GitGuestOptions): GitGuest {
  const folders = new WeakMap<MockFiles, string>();
  const folderOf = (files: MockFiles): string => {
    const known = folders.get(files) ?? mkdtempSync(join(root, 'guest-'));
    folders.set(files, known);
    return known;
  };
  const shell: MockProgram = async ({ args, files, write }) => {
    const folder = folderOf(files);
    const [, script = '', , , ...more] = args;
    // The answer of an image without GNU tar: a save then contains whole folders.
    if (script === MEASURE_IGNORED_SCRIPT) return CHANGES_UNFIT;
    const isCheckedOut = script === CHECKED_OUT_SCRIPT || script === FILES_WRITTEN_SCRIPT;
    const isUnpack = isCheckedOut || script === UNPACK_SCRIPT;
    onScript?.(isCheckedOut ? 'checked-out' : isUnpack ? 'unpack' : 'collect');
    if (isFlooding?.() === true && !isUnpack)
      for (let mib = 0; mib <= 256; mib += 16) await write('stdout', Buffer.alloc(16 * 1024 * 1024));
    for (const item of (isUnpack ? files.pack(GUEST_PATH) : null) ?? []) {
      if (item.kind !== 'file') continue;
      mkdirSync(dirname(join(folder, item.path)), { recursive: true });
      writeFileSync(join(folder, item.path), item.body, { mode: item.mode });
    }
    const { status, stdout, stderr } = spawnSync('/bin/sh', ['-c', script, 'sh', folder, ...more], {
      env: {
        PATH: GIT_PATH,
        HOME: root,
        GIT_CONFIG_NOSYSTEM: '1',
        GIT_AUTHOR_DATE: '@1000 +0000',
        GIT_COMMITTER_DATE: '@1000 +0000',
      },
      maxBuffer: 512 * 1024 * 1024,
    });
    await write('stderr', stderr);
    for (let at = 0; at < stdout.length; at += 4 * 1024 * 1024)
      await write('stdout', stdout.subarray(at, at + 4 * 1024 * 1024));
    return status ?? 1;
  };
  return { shell, folderOf };
}
