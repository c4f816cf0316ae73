/**
 * Paths that others may write are opened by `files/open-file.ts`, which neither waits for a pipe nor follows a link out of the
 * allowed folders. Other files open paths themselves only for a reason that is in this list.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { pathsOf } from './imports.ts';

const ROOT = findPackageRoot();
/** Functions of `node:fs` and `node:fs/promises` that open a path to read it. */
const OPENERS = new Set([
  'copyFile',
  'copyFileSync',
  'cp',
  'cpSync',
  'createReadStream',
  'open',
  'openAsBlob',
  'openSync',
  'readFile',
  'readFileSync',
]);

/** Why the path is not one that others may write, or how the file guards against it. A folder counts for all files below it. */
const REASONS: Readonly<Record<string, string>> = {
  'app/start/agent-logins.ts': 'logins in the home folder of the user',
  'cli/commands/runs/explain.ts': 'pages of the package',
  'cli/runs/print-result.ts': 'writes to the file that the user names',
  'cli/init/templates.ts': 'templates of the package',
  'app/access/open-access-store.ts': 'the state folder of the user',
  'app/secrets/secret-keys.ts': 'makes a new file (O_EXCL), and syncs the state folder; keys by open-file.ts',
  'app/control/pack-folder.ts': 'opens with O_NONBLOCK and O_NOFOLLOW beneath a folder that it holds',
  'app/control/send-images.ts': 'opens the image that the user names with O_NONBLOCK and O_NOFOLLOW',
  'app/control/send-repositories.ts': 'the folder of a private repository of Voidbox',
  'app/runs/unpack.ts': 'makes new files (O_EXCL)',
  'app/uploads/unpack-upload.ts': 'makes new files (O_EXCL), with O_NOFOLLOW beneath a folder that it holds',
  'setup/package-version.ts': 'package.json of the package',
  'client/embedded/': 'the state folder of the user, and files of the package',
  'client/service/serving.ts': 'the state folder of the user',
  'client/vms/this-host.ts': 'the state folder of the user',
  'files/named-file.ts': 'descriptors of the process; other paths by open-file.ts',
  'files/open-file.ts': 'it is the one that opens',
  'files/process-identity.ts': '/proc',
  'files/publish-folder.ts': 'folders of the state folder, to sync them',
  'git/base-bundle.ts': 'a private folder of the worker',
  'git/held-folder.ts': 'opens with O_NONBLOCK and O_NOFOLLOW beneath a folder that it holds',
  'git/make-branch.ts': 'a private repository of Voidbox',
  'native/': 'folders of VMs in the state folder of the user',
  'sandbox/checkpoints/folder.ts': 'makes new files (O_EXCL), and folders of the state folder; records by open-file.ts',
  'sandbox/checkpoints/merge-chain.ts':
    'makes new files (O_EXCL), and opens links with O_NONBLOCK and O_NOFOLLOW; records by open-file.ts',
  'sandbox/checkpoints/step-checkpoints.ts': 'the state folder of the user; records by open-file.ts',
  'sandbox/mock/disk.ts': 'makes new files (O_EXCL)',
  'sandbox/mounts/capture.ts': 'the capture in the state folder; mounted files by folder.ts',
  'sandbox/mounts/folder.ts': 'opens with O_NONBLOCK and O_NOFOLLOW beneath a folder that it holds',
  'sandbox/mounts/manifest.ts': 'the state folder of the user',
  'sandbox/mounts/writable-mounts.ts': 'the state folder of the user; mounted files by folder.ts',
  'setup/': 'pieces in the cache of the user, files of the package, /proc and /sys',
  'setup/images/read-folder.ts': 'opens with O_NONBLOCK and O_NOFOLLOW beneath a folder that it holds',
  'skill-kit/bundle/build-skill.ts': 'package.json of the package',
  'skill-kit/bundle/lazy-arktype.ts': 'modules that the bundle runs',
  'skill-kit/cli/open-session-file.ts': 'opens with O_NONBLOCK and O_NOFOLLOW, and makes files',
  'skill-kit/cli/session-state.ts': 'a descriptor of open-session-file.ts',
  'skill-kit/cli/skill-call.ts': 'the script that runs',
  'skill-kit/prompt/reference-loader.ts': 'references of a skill whose code runs in the same process',
  'store/': 'the state folder of the user',
  'app/deployments/version-compiler.ts': '/proc',
  'conditions/threads.ts': '/proc',
  'workers/embedded/folder-socket.ts': 'the state folder of the user',
  'workers/embedded/postgres/embedded-postgres.ts': '/proc',
  'workers/embedded/postgres/postgres-files.ts': 'the state folder of the user; data of the server by open-file.ts',
  'workers/checkout/plan-checkout.ts': 'a private folder of the worker',
  'workers/skills/child.ts': 'references of a skill whose code runs in the same process',
  'workers/skills/identity-file.ts': 'the state folder of the user',
};

/** Folders of tests and of programs that only a developer starts. */
const NOT_PRODUCT = /^(?:test|bench|examples)\/|\.test\.ts$|^vitest\.config\.ts$/;

/** Names of openers that a file imports; `*` for all of a module. */
function openersIn(text: string): readonly string[] {
  const late = /import\(\s*'(?:node:)?fs/.test(text) || /'fs(?:\/promises)?'/.test(text) ? ['*'] : [];
  const atOnce = [...text.matchAll(/^import (?!type )([^;]*?) from 'node:fs(?:\/promises)?';/gm)].flatMap(
    ([, what = '']) => {
      const names = /\{([^}]*)\}/s.exec(what)?.[1];
      if (names === undefined) return ['*'];
      return names
        .split(',')
        .map((name) => name.trim().split(' ')[0]!)
        .filter((name) => OPENERS.has(name));
    },
  );
  return [...atOnce, ...late];
}

const openers = pathsOf(ROOT)
  .filter((path) => path.endsWith('.ts') && !NOT_PRODUCT.test(path))
  .filter((path) => openersIn(readFileSync(join(ROOT, path), 'utf8')).length > 0);

/** The longest entry that has the file: the file itself, or a folder above it. */
function reasonOf(path: string): string | undefined {
  const entries = Object.keys(REASONS).filter(
    (entry) => path === entry || (entry.endsWith('/') && path.startsWith(entry)),
  );
  return entries.sort((one, other) => other.length - one.length)[0];
}

test('each file that opens paths directly is in the list, with a reason', () => {
  expect(openers.filter((path) => reasonOf(path) === undefined)).toEqual([]);
});

test('each entry of the list has a file that opens paths', () => {
  const used = new Set(openers.map(reasonOf));
  expect(Object.keys(REASONS).filter((entry) => !used.has(entry))).toEqual([]);
});

test('an opener is found in each form of import', () => {
  expect(openersIn("import { existsSync, readFileSync as read } from 'node:fs';")).toEqual(['readFileSync']);
  expect(openersIn("import { type FileHandle,\n  open } from 'node:fs/promises';")).toEqual(['open']);
  expect(openersIn("import * as fs from 'node:fs';\nimport files from 'node:fs/promises';")).toEqual(['*', '*']);
  expect(openersIn("import type { Stats } from 'node:fs';\nimport { existsSync } from 'node:fs';")).toEqual([]);
  expect(openersIn("const { readFile } = await import('node:fs/promises');")).toEqual(['*']);
});
