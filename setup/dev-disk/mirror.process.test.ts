/** The dev image with packages of a simulated mirror: a lock that fits, an outdated lock, and packages of the user. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { extrasOf } from '../../app/start/plan-extras.ts';
import { SANDBOX_DEFAULTS } from '../../domain/plan/defaults.ts';
import prepareHost from '../../test/rig/servers/host-pieces.setup.ts';
import { busyboxRoot } from '../../test/rig/vms/oci-layout.ts';
import { makeContext, pieceSource } from '../pieces/context.ts';
import { readEnvironment } from '../environment.ts';
import type { FoundPiece, SetupContext } from '../pieces/piece.ts';
import { resolveOptionalPieces } from '../resolve.ts';
import { SetupError } from '../setup-error.ts';
import { busybox as busyboxPiece } from '../pieces/programs.ts';
import { devDisk } from './dev-disk.ts';

/** The packages in the mirror's index: name, version, and the file for both. */
const APT_GET = `#!/bin/sh
echo "apt-get $*" >> "$MIRROR/calls"
for word; do case $word in Dir::State=*) state=\${word#*=};; esac; done
case " $* " in
  *" indextargets "*) echo 'http://mirror.example/debian trixie main' ;;
  *" update "*)
    case $state in */"$(cat "$MIRROR/suite")"/*) mkdir -p "$state/lists" && : > "$state/lists/mirror_Packages" ;; esac ;;
  *" --simulate "*)
    for word; do
      case $word in base-passwd|tiny|extra) ;; [a-z]*[a-z]) case $word in install) ;; *) echo "E: Unable to locate package $word" >&2; exit 100 ;; esac ;; *) continue ;; esac
      sed -n "s/^\\($word\\) \\(.*\\)/Inst \\1 (\\2 Debian:13 [all])/p" "$MIRROR/index"
    done ;;
  *" download busybox-static "*) cp "$MIRROR"/debs/busybox-static_*.deb . || exit 100 ;;
  *" download "*)
    for word; do case $word in *=*) case $word in *::*) ;; *) cp "$MIRROR/debs/\${word%%=*}_\${word#*=}_all.deb" . || exit 100 ;; esac ;; esac; done ;;
esac
`;
const APT_CACHE = `#!/bin/sh
echo "apt-cache $*" >> "$MIRROR/calls"
sed 's/^\\(.*\\) \\(.*\\)$/Package: \\1\\nVersion: \\2\\n/' "$MIRROR/index"
`;

let packages: string;
let busybox: Uint8Array;
// The disk is made in a jail by programs that a fresh machine lacks.
beforeAll(() => prepareHost(), 900_000);
beforeAll(async () => {
  const [, file] = await busyboxRoot();
  if (file?.kind !== 'file') throw new Error('the root has no busybox');
  busybox = file.body;
  packages = mkdtempSync(join(tmpdir(), 'voidbox-debs-'));
  const passwd = (name: string): [string, string] => [
    `usr/share/base-passwd/${name}.master`,
    'root:*:0:0:root:/root:/bin/bash\n',
  ];
  await deb('base-passwd', '1', [passwd('passwd'), passwd('group')]);
  for (const version of ['1', '2'])
    await deb('tiny', version, [
      ['usr/bin/sh', busybox],
      ['usr/sbin/ldconfig', '#!/bin/sh\nexit 0\n'],
      ['usr/share/tiny', version],
    ]);
  const busyboxes = [
    ['1.35.0', 'case $1 in wget) kill -SEGV $$ ;; esac'],
    ['1.37.0', 'case $1 in wget) exit 1 ;; esac'],
  ] as const;
  for (const [version, script] of busyboxes)
    await deb('busybox-static', version, [
      ['usr/bin/busybox', `#!/bin/sh\necho "BusyBox v${version} (Debian)"\n${script}\n`],
    ]);
  await deb('extra', '1', [['usr/share/extra', 'extra']]);
});
afterAll(() => rmSync(packages, { recursive: true, force: true }));

async function deb(
  name: string,
  version: string,
  files: readonly (readonly [string, string | Uint8Array])[],
): Promise<void> {
  const tree = mkdtempSync(join(tmpdir(), 'voidbox-deb-'));
  mkdirSync(join(tree, 'DEBIAN'));
  writeFileSync(
    join(tree, 'DEBIAN/control'),
    `Package: ${name}\nVersion: ${version}\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n`,
  );
  for (const [path, body] of files) {
    mkdirSync(join(tree, path, '..'), { recursive: true });
    writeFileSync(join(tree, path), body, { mode: 0o755 });
  }
  chmodSync(tree, 0o755);
  execFileSync(
    'dpkg-deb',
    ['--root-owner-group', '-Znone', '--build', tree, join(packages, `${name}_${version}_all.deb`)],
    { stdio: 'ignore' },
  );
  rmSync(tree, { recursive: true });
}

let dir: string;
let said: string[];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-mirror-'));
  said = [];
  for (const folder of ['bin', 'mirror/debs', 'config/voidbox', 'root/guest/dev-image'])
    mkdirSync(join(dir, folder), { recursive: true });
  for (const [name, text] of [
    ['apt-get', APT_GET],
    ['apt-cache', APT_CACHE],
  ] as const)
    writeFileSync(join(dir, 'bin', name), text.replaceAll('$MIRROR', join(dir, 'mirror')), { mode: 0o755 });
  for (const name of readdirSync(packages)) symlinkSync(join(packages, name), join(dir, 'mirror/debs', name));
  writeFileSync(join(dir, 'mirror/calls'), '');
  writeFileSync(join(dir, 'mirror/suite'), 'trixie');
  offer('base-passwd 1', 'tiny 1', 'extra 1');
  writeFileSync(join(dir, 'root/guest/dev-image/packages.txt'), '# what it holds\nbase-passwd\ntiny\n');
  const lock = {
    suite: 'trixie',
    packages: ['base-passwd', 'tiny'].map((name) => ({ name, version: '1', sha256: sha256Of(`${name}_1_all.deb`) })),
  };
  writeFileSync(join(dir, 'root/guest/dev-image/lock.json'), JSON.stringify(lock));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const offer = (...index: readonly string[]): void => writeFileSync(join(dir, 'mirror/index'), `${index.join('\n')}\n`);
const wish = (text: string): void => writeFileSync(join(dir, 'config/voidbox/dev-packages'), text);
const sha256Of = (file: string): string =>
  createHash('sha256')
    .update(readFileSync(join(packages, file)))
    .digest('hex');
const calls = (): string => readFileSync(join(dir, 'mirror/calls'), 'utf8');
const kept = (): readonly string[] =>
  existsSync(join(dir, 'cache')) ? readdirSync(join(dir, 'cache')).filter((name) => name.startsWith('dev-')) : [];
const look = (disk: string, path: string): string =>
  execFileSync('debugfs', ['-R', `cat ${path}`, disk], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });

async function context(): Promise<SetupContext> {
  const { PATH = '' } = process.env;
  const env = readEnvironment({
    HOME: dir,
    PATH: `${join(dir, 'bin')}:${PATH}`,
    VOIDBOX_CACHE_DIR: join(dir, 'cache'),
    XDG_CONFIG_HOME: join(dir, 'config'),
  });
  const base = { ...(await makeContext(env, (line) => said.push(line))), packageRoot: join(dir, 'root') };
  return { ...base, need: pieceSource(base, false) };
}

async function make(): Promise<FoundPiece> {
  return await devDisk.get!(await context());
}

const offerBusybox = (version: string): void => {
  for (const name of readdirSync(join(dir, 'mirror/debs')).filter((each) => each.startsWith('busybox-static')))
    if (!name.includes(version)) rmSync(join(dir, 'mirror/debs', name));
};

test('busybox is the one of the newest suite', async () => {
  offerBusybox('1.37.0');
  const found = await busyboxPiece.get!(await context());
  expect(found).toMatchObject({ version: '1.37.0', from: 'cache' });
  expect(calls()).toMatch(/\/trixie\/.* download busybox-static\n/);
  expect(said).toContain('downloading busybox-static of Debian trixie');
  expect(said.filter((line) => line.includes('wget'))).toEqual([]);
  expect(await busyboxPiece.find(await context())).toEqual(found);
});

test('set-up names the busybox if the mirror has only one whose `wget -T` crashes', async () => {
  writeFileSync(join(dir, 'mirror/suite'), 'bookworm');
  offerBusybox('1.35.0');
  expect(await busyboxPiece.get!(await context())).toMatchObject({ version: '1.35.0', from: 'cache' });
  expect(said).toContain("the mirror has no Debian trixie: of the guest's busybox its `wget -T` crashes");
});

test('packages of the lock are used if the mirror has them, and the disk is made once', async () => {
  const { path, version } = await make();
  expect(version).toBe('Debian trixie, 2 packages');
  expect(look(path, '/usr/share/tiny')).toBe('1');
  expect(look(path, '/etc/passwd')).toContain('sandbox:x:1000:1000:');
  expect(calls()).toMatch(/download base-passwd=1 tiny=1\n/);
  expect(calls()).not.toContain('--simulate');
  writeFileSync(join(dir, 'mirror/calls'), '');
  expect(await devDisk.find(await context())).toEqual({ path, version, from: 'cache' });
  expect(calls()).toBe('');
});

test('a truncated disk and a disk without its record are damaged, and are made again', async () => {
  const { path } = await make();
  const bytes = readFileSync(path);
  for (const damage of [() => truncateSync(path, 4096), () => truncateSync(join(path, '../image.json'), 0)]) {
    damage();
    expect(await devDisk.find(await context())).toBeNull();
    expect((await make()).path).toBe(path);
    expect(readFileSync(path).equals(bytes)).toBe(true);
  }
});

test('if the mirror has dropped a package, all packages are resolved again, and a message reports it', async () => {
  offer('base-passwd 1', 'tiny 2');
  const { path, version } = await make();
  expect(said).toContain('the mirror has no more tiny=1: all packages of the dev image are resolved again');
  expect(version).toBe('Debian trixie, 2 packages, not those of the lock');
  expect(look(path, '/usr/share/tiny')).toBe('2');
});

test("if the mirror lacks the lock's suite, the earlier suite is used, and a message reports it", async () => {
  writeFileSync(join(dir, 'mirror/suite'), 'bookworm');
  const { version } = await make();
  expect(said).toContain('the mirror has no Debian trixie: the dev image uses packages of bookworm');
  expect(version).toBe('Debian bookworm, 2 packages, not those of the lock');
});

test('a package that differs from the lock is rejected, and nothing is kept', async () => {
  rmSync(join(dir, 'mirror/debs/tiny_1_all.deb'));
  symlinkSync(join(packages, 'tiny_2_all.deb'), join(dir, 'mirror/debs/tiny_1_all.deb'));
  await expect(make()).rejects.toThrow(
    /The mirror's tiny 1 is not the package that the dev image is locked to: its SHA-256 is [0-9a-f]{64}/,
  );
  expect(kept()).toEqual([]);
  expect(readdirSync(join(dir, 'cache/tmp'))).toEqual([]);
});

test('packages of the user are put into a separate disk, and without the list the locked disk is used again', async () => {
  const locked = await make();
  wish('# mine\nextra\ntiny\n');
  expect(await devDisk.find(await context())).toBeNull();
  const own = await make();
  expect(said).toContain('resolving the packages of the dev image with yours: extra');
  expect(own.version).toBe('Debian trixie, 3 packages, not those of the lock');
  expect(look(own.path, '/usr/share/extra')).toBe('extra');
  wish('# none\n');
  expect(await devDisk.find(await context())).toEqual(locked);
  expect(kept()).toHaveLength(2);
});

test("the error for a user's package that the mirror does not have names it and the remedy", async () => {
  wish('nonesuch\n');
  const error = await make().catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(SetupError);
  expect(error).toMatchObject({
    message: expect.stringContaining('Unable to locate package nonesuch') as string,
    remedy: expect.stringContaining('Remove the packages that it names from your list') as string,
  });
  wish('tiny extra\n');
  await expect(make()).rejects.toThrow(
    'config/voidbox/dev-packages:1: "tiny extra" is not the name of a Debian package',
  );
  expect(kept()).toEqual([]);
});

test('a plan without it asks no mirror, whatever the lists say', async () => {
  wish('nonesuch\n');
  const { env } = await context();
  const scope = { id: 'a', stages: ['a'], sandbox: SANDBOX_DEFAULTS };
  expect(await resolveOptionalPieces(env, extrasOf({ scopes: [scope], stages: [] }), { install: true })).toEqual(
    new Map(),
  );
  expect(calls()).toBe('');
  const dev = { ...scope, sandbox: { ...SANDBOX_DEFAULTS, image: { kind: 'dev' } as const } };
  await expect(resolveOptionalPieces(env, extrasOf({ scopes: [dev], stages: [] }), { install: true })).rejects.toThrow(
    SetupError,
  );
  expect(calls()).toContain('apt-get');
});
