/** Disks of images: from folders, tars and OCI layouts, also with hostile content. */
import { Buffer } from 'node:buffer';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { TarItem } from '../../tar/write.ts';
import { busyboxRoot, type Descriptor, tarOf, writeLayout } from '../../test/rig/vms/oci-layout.ts';
import { makeContext, pieceSource } from '../pieces/context.ts';
import { readEnvironment } from '../environment.ts';
import { ensureImageDisk, findImageDisk, knowImage } from './image-disk.ts';
import { IMAGE_LIMITS, type ImageLimits } from './image-limits.ts';

let base: readonly TarItem[];
beforeAll(async () => {
  base = await busyboxRoot();
});
let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-image-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

interface Made {
  readonly disk: string;
  readonly env: Readonly<Record<string, string>>;
  readonly said: readonly string[];
}

async function make(path: string, limits: Partial<ImageLimits> = {}, cache = 'cache'): Promise<Made> {
  const said: string[] = [];
  const all = { ...IMAGE_LIMITS, ...limits };
  const context = await makeContext({ ...readEnvironment(), cacheDir: join(dir, cache) }, (line) => said.push(line));
  const known = await knowImage(path, all);
  const { path: disk, env } = await ensureImageDisk({ ...context, need: pieceSource(context, false) }, known, all);
  return { disk, env, said };
}

/** Runs a command of debugfs on a disk without mounting it. */
function look(disk: string, command: string): string {
  return execFileSync('debugfs', ['-R', command, disk], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
}
const names = (disk: string, folder: string): readonly string[] =>
  look(disk, `ls -p ${folder}`)
    .split('\n')
    .flatMap((line) => line.split('/')[5] ?? [])
    .filter((name) => !['', '.', '..', 'lost+found'].includes(name))
    .sort();

async function tar(items: readonly TarItem[], name = 'image.tar'): Promise<string> {
  const path = join(dir, name);
  writeFileSync(path, await tarOf(items));
  return path;
}
const text = (path: string, body: string, mode = 0o644): TarItem => ({
  kind: 'file',
  path,
  mode,
  body: Buffer.from(body),
});
const sha256Of = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex');

describe('a tar', () => {
  test('becomes a disk whose files all belong to root, with what a guest needs', async () => {
    const path = await tar([
      ...base,
      text('etc/secret', 'x', 0o4600),
      text('srv/a', 'hello'),
      { kind: 'hardlink', path: 'srv/b', target: 'srv/a' },
      text('proc/1/x', 'x'),
    ]);
    const { disk } = await make(path);
    expect(look(disk, 'cat /srv/b')).toBe('hello');
    expect(look(disk, 'stat /srv/a')).toMatch(/User: +0 +Group: +0[\s\S]*Links: 2/);
    expect(look(disk, 'stat /etc/secret')).toMatch(/Mode: +0600/);
    expect(look(disk, 'cat /etc/passwd')).toContain('sandbox:x:1000:1000:');
    expect(names(disk, '/')).toEqual([
      'bin',
      'dev',
      'etc',
      'home',
      'mnt',
      'opt',
      'proc',
      'root',
      'run',
      'srv',
      'sys',
      'tmp',
      'usr',
      'var',
      'workspace',
    ]);
    expect(names(disk, '/proc')).toEqual([]);
    execFileSync('e2fsck', ['-fn', disk], { stdio: 'ignore' });
  });

  test('is made once, and gives the same bytes in another cache and behind gzip, whatever it is called', async () => {
    const path = await tar(base);
    const first = await make(path);
    expect(first.said.join()).toContain('making the disk');
    expect((await make(path)).said).toEqual([]);
    expect(sha256Of((await make(path, {}, 'other')).disk)).toBe(sha256Of(first.disk));
    writeFileSync(join(dir, 'odd.name'), gzipSync(await tarOf(base)));
    const packed = await make(join(dir, 'odd.name'));
    expect(packed.disk).not.toBe(first.disk);
    expect(sha256Of(packed.disk)).toBe(sha256Of(first.disk));
  });

  test.each<[string, readonly TarItem[], RegExp]>([
    ['a path that leads out', [text('../../../../tmp/voidbox-escaped', 'x')], /leads out of the image/],
    ['a path that leads out, behind folders', [text('a/../../x', 'x')], /leads out of the image/],
    [
      'a hard link to a file of the host',
      [{ kind: 'hardlink', path: 'x', target: '/etc/hostname' }],
      /hard link to "\/etc\/hostname", which is not a file of the image/,
    ],
    ['a device', [{ kind: 'device', path: 'srv/null', major: 1, minor: 3 }], /"srv\/null".*is a device/],
    ['a pipe', [{ kind: 'fifo', path: 'srv/pipe' }], /"srv\/pipe".*is a device, a pipe/],
    [
      'a link where a guest puts its own programs',
      [{ kind: 'symlink', path: 'usr', target: '/run' }],
      /\/usr\/lib of the image is reached through a link/,
    ],
  ])('with %s is refused', async (_, items, message) => {
    await expect(make(await tar([...base, ...items]))).rejects.toThrow(message);
    expect(readdirSync(join(dir, 'cache')).filter((name) => name.startsWith('image-'))).toEqual([]);
    expect(readdirSync(join(dir, 'cache', 'tmp'))).toEqual([]);
  });

  test('writes through none of its links: neither to the host nor to what the link names', async () => {
    const outside = join(dir, 'outside');
    mkdirSync(outside);
    const { disk } = await make(
      await tar([
        ...base,
        { kind: 'symlink', path: 'srv', target: outside },
        text('srv/x', 'x'),
        { kind: 'symlink', path: 'far', target: '../../elsewhere' },
        text('far/x', 'x'),
        { kind: 'symlink', path: 'tmp', target: outside },
      ]),
    );
    expect(readdirSync(outside)).toEqual([]);
    expect(names(disk, '/elsewhere')).toEqual(['x']);
    expect(look(disk, 'stat /tmp')).toContain('Type: directory');
  });

  test.each<[string, Partial<ImageLimits>, RegExp]>([
    ['entries', { entries: 11 }, /more than 11 entries/],
    ['bytes of files', { contentBytes: 100_000 }, /more than 100000 bytes/],
    ['bytes when it is unpacked', { streamBytes: 100_000 }, /more than 100000 bytes when it is unpacked/],
    ['bytes of the archive', { archiveBytes: 100_000 }, /at most 100000 are read/],
  ])('with too many %s is refused', async (_, limits, message) => {
    await expect(make(await tar([...base, text('a', ''), text('b', '')]), limits)).rejects.toThrow(message);
  });

  test('that grows without end when it is unpacked is given up', async () => {
    writeFileSync(
      join(dir, 'bomb.tar.gz'),
      gzipSync(
        Buffer.concat([await tarOf([text('a', '')]).then((tar) => tar.subarray(0, 512)), Buffer.alloc(64 << 20)]),
      ),
    );
    await expect(make(join(dir, 'bomb.tar.gz'), { streamBytes: 1 << 20 })).rejects.toThrow('when it is unpacked');
  });

  test('that is sparse, cut short, no tar, or packed otherwise is refused by name', async () => {
    writeFileSync(join(dir, 'hole'), '');
    truncateSync(join(dir, 'hole'), 1 << 20);
    for (const format of ['gnu', 'pax']) {
      execFileSync('tar', ['-S', `--format=${format}`, '-cf', join(dir, 'sparse.tar'), '-C', dir, 'hole']);
      await expect(make(join(dir, 'sparse.tar')), format).rejects.toThrow('is a sparse file');
    }
    writeFileSync(join(dir, 'cut.tar'), (await tarOf(base)).subarray(0, 100_000));
    await expect(make(join(dir, 'cut.tar'))).rejects.toThrow(/cut\.tar is not a readable tar: it was cut short/);
    writeFileSync(join(dir, 'text.tar'), 'hello '.repeat(1_000));
    await expect(make(join(dir, 'text.tar'))).rejects.toThrow(/text\.tar is not a readable tar/);
    writeFileSync(join(dir, 'half.gz'), gzipSync(await tarOf(base)).subarray(0, 10_000));
    await expect(make(join(dir, 'half.gz'))).rejects.toThrow(/half\.gz cannot be unpacked/);
    writeFileSync(join(dir, 'a.xz'), Buffer.from('fd377a585a000004', 'hex'));
    await expect(make(join(dir, 'a.xz'))).rejects.toThrow('is compressed with xz');
  });

  test('keeps its own user 1000, and the times of its files', async () => {
    const path = join(dir, 'timed.tar');
    mkdirSync(join(dir, 'tree/etc'), { recursive: true });
    writeFileSync(join(dir, 'tree/etc/passwd'), 'node:x:1000:1000::/home/node:/bin/sh\n');
    writeFileSync(join(dir, 'tree/etc/old'), '');
    utimesSync(join(dir, 'tree/etc/old'), 1_000_000_000, 1_000_000_000);
    mkdirSync(join(dir, 'tree/bin'));
    writeFileSync(join(dir, 'tree/bin/sh'), '#!/x\n', { mode: 0o755 });
    execFileSync('tar', ['-cf', path, '-C', join(dir, 'tree'), '.']);
    const { disk } = await make(path);
    expect(look(disk, 'cat /etc/passwd')).toBe('node:x:1000:1000::/home/node:/bin/sh\n');
    expect(look(disk, 'stat /etc/old')).toMatch(/mtime: 0x3b9aca00/);
  });

  test.each<[string, readonly TarItem[], RegExp]>([
    ['is not there', [text('etc/x', '')], /no \/bin\/sh that can be executed/],
    ['leads to nothing', [{ kind: 'symlink', path: 'bin/sh', target: '/usr/bin/dash' }], /no \/bin\/sh/],
    ['is not executable', [text('bin/sh', '#!/x')], /no \/bin\/sh/],
    [
      'is for another processor',
      [{ kind: 'file', path: 'bin/sh', mode: 0o755, body: Buffer.from(`7f454c460201${'00'.repeat(12)}b700`, 'hex') }],
      /another processor than x86-64/,
    ],
  ])('whose shell %s is refused', async (_, items, message) => {
    await expect(make(await tar(items))).rejects.toThrow(message);
  });

  test('a tar of `docker save` is refused with the way to use it', async () => {
    await expect(make(await tar([text('manifest.json', '[]'), text('oci-layout', '{}')]))).rejects.toMatchObject({
      remedy: expect.stringContaining('unpack it with tar') as string,
    });
  });
});

describe('a folder', () => {
  const root = (): string => join(dir, 'root');
  beforeEach(() => {
    mkdirSync(join(root(), 'bin'), { recursive: true });
    writeFileSync(join(root(), 'bin/sh'), '#!/x\n', { mode: 0o755 });
  });

  test('becomes a disk; links in it are taken as they are, and what they lead to is not read', async () => {
    writeFileSync(join(dir, 'secret'), 'secret');
    symlinkSync(join(dir, 'secret'), join(root(), 'leak'));
    symlinkSync(dir, join(root(), 'leaks'));
    const { disk } = await make(root());
    expect(look(disk, 'stat /leak')).toContain(`Fast link dest: "${join(dir, 'secret')}"`);
    expect(readFileSync(disk).includes('secretsecret')).toBe(false);
    expect(look(disk, 'stat /leaks')).toContain('Type: symlink');
  });

  test('is another image when a file, a right or a name changes, and the same when nothing does', async () => {
    const seen = new Set<string>();
    const know = async (): Promise<number> => {
      seen.add((await knowImage(root())).sha256);
      return seen.size;
    };
    expect(await know()).toBe(1);
    expect(await know()).toBe(1);
    writeFileSync(join(root(), 'a'), 'one');
    expect(await know()).toBe(2);
    writeFileSync(join(root(), 'a'), 'two');
    utimesSync(join(root(), 'a'), 1, 1);
    expect(await know()).toBe(3);
    execFileSync('chmod', ['600', join(root(), 'a')]);
    expect(await know()).toBe(4);
  });

  test('with a pipe, too many entries or too many bytes is refused, a huge file without being read', async () => {
    await expect(knowImage(root(), { ...IMAGE_LIMITS, entries: 1 })).rejects.toThrow('more than 1 entries');
    writeFileSync(join(root(), 'huge'), '');
    truncateSync(join(root(), 'huge'), 2 ** 40);
    await expect(knowImage(root())).rejects.toThrow(/files of more than \d+ bytes; "huge"/);
    rmSync(join(root(), 'huge'));
    execFileSync('mkfifo', [join(root(), 'pipe')]);
    await expect(knowImage(root())).rejects.toThrow('"pipe" of the image is a device, a pipe or a socket');
  });

  test('that changed after it was looked at is not taken for what it was', async () => {
    const known = await knowImage(root());
    writeFileSync(join(root(), 'bin/sh'), '#!/y\n');
    const context = await makeContext({ ...readEnvironment(), cacheDir: join(dir, 'cache') }, undefined);
    await expect(ensureImageDisk({ ...context, need: pieceSource(context, false) }, known)).rejects.toThrow(
      'changed while it was read',
    );
    expect(await findImageDisk({ cacheDir: join(dir, 'cache') }, known.sha256)).toBeNull();
  });
});

describe('an OCI layout', () => {
  const layout = (): string => join(dir, 'layout');
  const manifestBlob = (digest: string): string => join(layout(), 'blobs', 'sha256', digest.slice('sha256:'.length));

  test('becomes a disk of its layers, with what later ones removed', async () => {
    await writeLayout(layout(), {
      layers: [
        [...base, text('a/old', '1'), text('b/old', '1'), text('kept', '1')],
        [
          text('a/.wh.old', ''),
          text('b/.wh..wh..opq', ''),
          text('b/new', '2'),
          text('b/.wh..wh.plnk', ''),
          text('kept', '2'),
        ],
      ],
      config: {
        Env: ['PATH=/opt/x:/bin', 'GREETING=hello world=', 'HOME=/root', 'http_proxy=http://x'],
        User: 'node',
        WorkingDir: '/srv',
        Cmd: ['x'],
      },
    });
    const { disk, env, said } = await make(layout());
    expect(names(disk, '/a')).toEqual([]);
    expect(names(disk, '/b')).toEqual(['new']);
    expect(look(disk, 'cat /kept')).toBe('2');
    expect(env).toEqual({ PATH: '/opt/x:/bin', GREETING: 'hello world=' });
    expect(said.join('\n')).toContain('User, WorkingDir, Cmd of the image are ignored');
    // The warning also appears if the disk already exists.
    expect((await make(layout())).said).toEqual(said.slice(-1));
  });

  test('for several machines gives what is for linux/amd64, behind an index too, and what signs it counts for none', async () => {
    const other = (of: Descriptor, os: string, architecture: string) => ({
      ...of,
      digest: `sha256:${'0'.repeat(64)}`,
      platform: { os, architecture },
    });
    await writeLayout(layout(), {
      layers: [base],
      index: (manifest) => ({
        manifests: [
          other(manifest, 'linux', 'arm64'),
          other(manifest, 'unknown', 'unknown'),
          { ...manifest, platform: { os: 'linux', architecture: 'amd64' } },
        ],
      }),
    });
    await make(layout());
  });

  test.each<[string, Parameters<typeof writeLayout>[1], RegExp]>([
    ['is for another processor', { layers: [[]], architecture: 'arm64' }, /is for "linux\/arm64"/],
    ['has no layer', { layers: [] }, /has 0 layers/],
    ['has too many layers', { layers: Array.from({ length: 129 }, () => []) }, /has 129 layers; from 1 to 128/],
    [
      'names two images',
      {
        layers: [[]],
        index: (one) => ({
          manifests: ['a', 'b'].map((name) => ({ ...one, annotations: { 'org.opencontainers.image.ref.name': name } })),
        }),
      },
      /has 2 images for linux\/amd64 \("a", "b"\)/,
    ],
    ['names none', { layers: [[]], index: () => ({ manifests: [] }) }, /no image for linux\/amd64 among its 0/],
    [
      'names a layer that leads elsewhere',
      { layers: [[]], index: (one) => ({ manifests: [{ ...one, digest: 'sha256:../../../../etc/passwd' }] }) },
      /which is not a SHA-256/,
    ],
    [
      'has a variable with an invalid name',
      { layers: [[]], config: { Env: ['A-B=x'] } },
      /an invalid variable: "A-B=x"/,
    ],
    [
      'has too many variables',
      { layers: [[]], config: { Env: Array.from({ length: 129 }, (_, i) => `V${i}=x`) } },
      /has 129 variables/,
    ],
    [
      'has variables that are too large',
      { layers: [[]], config: { Env: [`V=${'x'.repeat(33_000)}`] } },
      /of 33001 bytes/,
    ],
  ])('that %s is refused', async (_, parts, message) => {
    await writeLayout(layout(), parts);
    await expect(knowImage(layout())).rejects.toThrow(message);
  });

  test('whose index names itself again and again is refused', async () => {
    let inner = await writeLayout(layout(), { layers: [base] });
    for (let depth = 0; depth < 3; depth += 1) inner = await wrapped(inner);
    await expect(knowImage(layout())).rejects.toThrow('an index within 3 others');
  });
  async function wrapped(digest: string): Promise<string> {
    const bytes = Buffer.from(JSON.stringify({ manifests: [{ digest }] }));
    const outer = createHash('sha256').update(bytes).digest('hex');
    writeFileSync(join(layout(), 'blobs/sha256', outer), bytes);
    writeFileSync(join(layout(), 'index.json'), JSON.stringify({ manifests: [{ digest: `sha256:${outer}` }] }));
    return `sha256:${outer}`;
  }

  test('that is damaged is refused, and nothing is made of it', async () => {
    const digest = await writeLayout(layout(), { layers: [base, [text('a', '1')]] });
    const manifest = JSON.parse(readFileSync(manifestBlob(digest), 'utf8')) as { layers: Descriptor[] };
    const layer = manifestBlob(manifest.layers[1]!.digest);
    writeFileSync(layer, await tarOf([text('a', '2')]));
    await expect(make(layout())).rejects.toThrow(/The layer [0-9a-f]{12} of .* is damaged/);
    expect(readdirSync(join(dir, 'cache')).filter((name) => name.startsWith('image-'))).toEqual([]);
    rmSync(layer);
    symlinkSync('/etc/hostname', layer);
    await expect(make(layout())).rejects.toThrow('it leads to /etc/hostname');
    writeFileSync(manifestBlob(digest), '{}');
    await expect(knowImage(layout())).rejects.toThrow('is damaged');
    writeFileSync(join(layout(), 'index.json'), 'root:x:0:0');
    await expect(knowImage(layout())).rejects.toThrow(/is not a JSON document of an OCI layout\.$/);
    writeFileSync(join(layout(), 'index.json'), ' '.repeat(5 << 20));
    await expect(knowImage(layout())).rejects.toThrow('at most 4194304 are read');
  });
});
