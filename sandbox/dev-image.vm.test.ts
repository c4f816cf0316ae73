/** VMs whose root is the dev image: its programs, and each promise that also holds for the guest's own image. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { chmod, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Sandbox, SandboxBackend } from '../activities/ports/sandbox.ts';
import { readEnvironment } from '../setup/environment.ts';
import { resolveHostPieces, resolveOptionalPieces } from '../setup/resolve.ts';
import { OF_IMAGES } from '../test/conformance/sandbox.ts';
import { follow, limit, request, script, textOf } from '../test/conformance/sandbox/behaviour.ts';
import { createRealHost, type RealHost, SMALL_VM } from '../test/conformance/sandbox/real-host.ts';
import { type ConformanceRig, createConformanceRig } from '../test/conformance/sandbox/rig.ts';

/** The limit includes downloading and making the disk. */
const SETUP_LIMIT_MS = 1_200_000;
const DEV = { ...SMALL_VM, memoryMib: 384, diskMib: 256, image: { kind: 'dev' } } as const;

let host: RealHost;
let disk: string;
beforeAll(async () => {
  const environment = readEnvironment();
  const pieces = await resolveHostPieces(environment, { install: true });
  const onProgress = (line: string): void => console.error(line);
  disk = (await resolveOptionalPieces(environment, ['dev'], { install: true, onProgress })).get('dev')!;
  host = await createRealHost(pieces);
}, SETUP_LIMIT_MS);
afterAll(async () => {
  const left = await host.dispose();
  if (left.length > 0) throw new Error(`VMs were left: ${left.join(', ')}`);
});

async function hashOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}

describe('the dev image', () => {
  let sandbox: Sandbox;
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'voidbox-dev-'));
    // The VMM runs as another user and must read the folder.
    await chmod(folder, 0o755);
    await writeFile(join(folder, 'here.txt'), 'here');
    const key = { runId: 'dev', scope: 'image', instance: [], generation: 0 };
    const mounts = [{ hostPath: folder, guestPath: '/data/deep', mode: 'ro' }] as const;
    sandbox = await host.backend.launch(key, { ...DEV, mounts }, limit());
  }, 120_000);
  afterAll(async () => {
    await sandbox.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const sh = async (line: string): Promise<string> => await textOf(sandbox, script(line));

  it('tells Node to use the proxy of the guest', async () => {
    expect(await sh('echo "$NODE_USE_ENV_PROXY"')).toBe('1');
  });

  it.each([
    ['bash', 'bash -c \'[[ abc =~ ^a(.)c$ ]] && echo "${BASH_REMATCH[1]}"\'', 'b'],
    ['node', 'node -p "[1, 2].map((x) => x * 2).join()"', '2,4'],
    ['python', 'python3 -c "import json, ssl, sqlite3, zoneinfo; print(json.dumps([1]))"', '[1]'],
    ['modules of Python that are compiled', 'python3 -v -c "import json" 2>&1 | grep -c "matches.*json/__init__"', '1'],
    [
      'git',
      'cd /tmp && git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git log --format=%s',
      'x',
    ],
    ['ripgrep', 'echo needle > /tmp/hay && rg -c needle /tmp/hay', '1'],
    ['curl with its libraries', 'curl --version | grep -o "^curl 8"', 'curl 8'],
    ['authorities', "grep -c BEGIN /etc/ssl/certs/ca-certificates.crt | awk '{ print ($1 > 100) }'", '1'],
    ['a locale', 'locale -a | grep -x C.utf8', 'C.utf8'],
    ['its own user', 'whoami; pwd; echo $HOME', 'sandbox\n/workspace\n/home/sandbox'],
    ['user namespaces', 'unshare -Ur true && echo yes', 'yes'],
    ['the mount of the plan', 'cat /data/deep/here.txt', 'here'],
  ])('has %s', { timeout: 60_000 }, async (_, line, output) => {
    expect(await sh(line)).toBe(output);
  });

  it('cannot be written by users, but for the scratch folders', async () => {
    for (const path of [
      '/x',
      '/usr/x',
      '/etc/passwd',
      '/opt/x',
      '/var/x',
      '/mnt/x',
      '/data/x',
      '/data/deep/x',
      '/run/x',
    ])
      expect(await sh(`echo x 2>/dev/null > ${path} && echo written || echo refused`), path).toBe('refused');
    for (const path of ['/workspace', '/home/sandbox', '/tmp', '/var/tmp', '/dev/shm'])
      expect(await sh(`echo x > ${path}/x && echo written`), path).toBe('written');
    expect(await sh('find / -xdev -perm /6000 2>/dev/null | wc -l')).toBe('0');
    expect(await sh('command -v apt apt-get || echo none')).toBe('none');
  });

  it('hides the agent, the disks and the layer of what root changed', async () => {
    expect(await sh('ls -d /proc/1 2>/dev/null || echo hidden')).toBe('hidden');
    expect(await sh('ls /run/scratch /run/root-disk 2>/dev/null || echo closed')).toBe('closed');
    expect(await sh('head -c 1 /dev/vda 2>/dev/null || head -c 1 /dev/vdc 2>/dev/null || echo closed')).toBe('closed');
    // The first root of the boot is below no folder that a user reaches.
    expect(await sh('ls /init 2>/dev/null || echo none')).toBe('none');
  });

  it('is the same file for all VMs, which none of them changes', { timeout: 120_000 }, async () => {
    const before = await hashOf(disk);
    const key = { runId: 'dev', scope: 'second', instance: [], generation: 0 };
    const second = await host.backend.launch(key, DEV, limit());
    await second.writeFile('/srv-data/file', 1, bytesOf('x'), limit());
    expect(await textOf(second, script('cat /srv-data/file; touch /srv-data/own && echo written'))).toBe('xwritten');
    expect(await sh('ls -d /srv-data 2>/dev/null || echo none')).toBe('none');
    await second.stop();
    expect(await hashOf(disk)).toBe(before);
    expect((await stat(disk)).mode & 0o777).toBe(0o644);
  });

  it('keeps the clock of the host, within a second', async () => {
    const before = Date.now();
    const guestMs = Number(await sh('date +%s%3N'));
    expect(guestMs).toBeGreaterThan(before - 1_000);
    expect(guestMs).toBeLessThan(Date.now() + 1_000);
  });

  it('names the lack of memory', { timeout: 120_000 }, async () => {
    const { exit } = await follow(
      await sandbox.exec(request('python3', ['-c', 'x = []\nwhile True: x.append(b"x" * (16 << 20))']), limit()),
    );
    expect(exit).toMatchObject({ reason: 'exited', exitCode: 137 });
    expect(exit.message).toContain('memory');
  });

  it('lets a command read a long file again and again beside a memory that is nearly full', async () => {
    const program = `import os, time
held = bytearray(250 << 20)
chunk = os.urandom(1 << 20)
with open('/workspace/long', 'wb') as long:
    for _ in range(120): long.write(chunk)
end = time.monotonic() + 10
while time.monotonic() < end:
    with open('/workspace/long', 'rb') as long:
        while long.read(1 << 20): pass
os.remove('/workspace/long')
print('read')`;
    const { exit, stdout } = await follow(await sandbox.exec(request('python3', ['-c', program]), limit()));
    expect(exit).toMatchObject({ reason: 'exited', exitCode: 0 });
    expect(stdout.toString()).toBe('read\n');
  });
});

describe('the conformance table in the dev image', () => {
  let rig: ConformanceRig;
  beforeAll(async () => {
    const { backend } = host;
    const dev: SandboxBackend = {
      ...backend,
      launch: (key, spec, signal) => backend.launch(key, { ...spec, image: { kind: 'dev' } }, signal),
    };
    rig = await createConformanceRig(dev, 'qemu');
  });
  afterEach(() => rig.clear());
  afterAll(() => rig.dispose());

  it.for(OF_IMAGES.map((behaviour) => [behaviour.name, behaviour] as const))(
    '%s',
    { timeout: 240_000 },
    async ([, behaviour]) => {
      await behaviour.run(rig);
    },
  );
});

async function* bytesOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}
