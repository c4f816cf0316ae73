/** Guests that attack the host: each ends as an error of its stage within its deadline, and the worker stays small. */
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { writeCpio } from '../../guest/image/cpio.ts';
import { makeContext, pieceSource } from '../../setup/pieces/context.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { sleeping } from './specs.ts';
import { Rig, until } from './rig.ts';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

/** An initramfs whose init writes what it likes to the guest port instead of speaking the protocol. */
async function hostileInitramfs(folder: string, onPort: string): Promise<string> {
  const busybox = await pieceSource(await makeContext(readEnvironment(), undefined, 'debian'), true)('busybox');
  const init = `#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
while [ ! -e /dev/vport0p1 ]; do /bin/busybox sleep 0.1; done
exec 3<>/dev/vport0p1
${onPort}
while :; do /bin/busybox sleep 1000; done
`;
  const file = join(folder, 'hostile.cpio.gz');
  const archive = writeCpio([
    { kind: 'folder', path: 'bin', mode: 0o755 },
    { kind: 'folder', path: 'dev', mode: 0o755 },
    { kind: 'file', path: 'bin/busybox', mode: 0o755, content: readFileSync(busybox.path) },
    { kind: 'file', path: 'init', mode: 0o755, content: Buffer.from(init) },
  ]);
  writeFileSync(file, gzipSync(archive, { level: 1 }));
  return file;
}

const GARBAGE: readonly {
  readonly name: string;
  readonly onPort: string;
  readonly code: string;
  readonly bootTimeoutMs: number;
}[] = [
  { name: 'garbage', onPort: '/bin/busybox cat /dev/urandom >&3', code: 'vm/protocol', bootTimeoutMs: 60_000 },
  { name: 'nothing at all', onPort: ':', code: 'vm/boot-timeout', bootTimeoutMs: 6_000 },
];

for (const { name, onPort, code, bootTimeoutMs } of GARBAGE) {
  // Side by side: most of their time is waiting for boots that never answer.
  test.concurrent(`a guest that sends ${name} fails its stage with ${code}`, async () => {
    await using folder = new Rig();
    const initramfs = await hostileInitramfs(folder.specDir, onPort);
    await using rig = new Rig({
      VOIDBOX_INITRAMFS: initramfs,
      VOIDBOX_KERNEL_KIND: 'debian',
      VOIDBOX_BOOT_TIMEOUT_MS: String(bootTimeoutMs),
    });
    const result = await rig.cli('run', rig.spec('spec.yaml', sleeping(1)), '--run-id', 'hostile');
    expect(result.code).toBe(1);
    const finished = await rig.finish('hostile', 5_000);
    expect(finished.outcome.failure?.code).toBe(code);
    const { workerPid } = await rig.liveStack();
    expect(residentMib(workerPid)).toBeLessThan(400);
    await rig.assertNothingLeft();
  });
}

test('a flood without an attached worker is spooled, and every byte of it arrives', async () => {
  const rig = theRig();
  const bytes = 48 * 1024 * 1024;
  const spec = `api_version: v1
kind: workflow
name: flood
sandbox: { memory_mb: 256 }
workflow:
  steps:
    - name: flood
      run: { program: sh, args: [-c, "echo begun >&2; sleep 2; yes voidbox | head -c ${bytes}"] }
`;
  await rig.launch(rig.spec('spec.yaml', spec), 'flood');
  await until('the stage to begin', 60_000, async () =>
    (await rig.output('flood', 'flood', 'stderr').catch(() => '')).includes('begun'),
  );
  const { workerPid } = await rig.liveStack();
  const keeper = rig.keepers()[0]!;
  rig.pause(workerPid);
  await until(
    'the flood to end in the spool',
    90_000,
    () => rig.execRecords(keeper).some((record) => record['state'] === 'ended'),
    200,
  );
  rig.wake(workerPid);
  const finished = await rig.finish('flood');
  expect(finished.outcome.state).toBe('succeeded');
  expect(finished.outcome.output?.sizeBytes).toBe(bytes);
  const expected = createHash('sha256')
    .update('voidbox\n'.repeat(bytes / 8))
    .digest('hex');
  expect(finished.outcome.output?.sha256).toBe(expected);
  expect(residentMib((await rig.liveStack()).workerPid)).toBeLessThan(500);
});

test('more output than a stage may write fails it with the first and the last MiB kept', async () => {
  const rig = theRig();
  const spec = `api_version: v1
kind: workflow
name: limit
sandbox: { memory_mb: 256 }
workflow:
  steps:
    - name: flood
      max_output_mb: 4
      run: { program: sh, args: [-c, "yes voidbox"] }
`;
  const result = await rig.cli('run', rig.spec('spec.yaml', spec), '--run-id', 'limit');
  expect(result.code).toBe(1);
  expect((await rig.finish('limit', 5_000)).outcome.failure?.code).toBe('stage/output-limit');
});

function residentMib(pid: number): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024;
}
