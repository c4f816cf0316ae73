/**
 * A VMM that its guest has taken over cannot change what other VMs start from, and a copy is a machine of its own,
 * however old its snapshot is. The VMM is a script in the real jail, which becomes QEMU or an attacker.
 */
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { LaunchSpec, Sandbox } from '../activities/ports/sandbox.ts';
import { vmRunDir } from '../native/index.ts';
import { readEnvironment } from '../setup/environment.ts';
import { resolveHostPieces } from '../setup/resolve.ts';
import { limit, request, script, textOf } from '../test/conformance/sandbox/behaviour.ts';
import { createRealHost, SMALL_VM, type RealHost } from '../test/conformance/sandbox/real-host.ts';
import { expectRightClock, followClock } from '../test/rig/vms/guest-clock.ts';
import { changeInside, hashOf, listSnapshots, makeOlder, namesIn, soon } from '../test/rig/vms/snapshot-folder.ts';

const VM: LaunchSpec = { ...SMALL_VM, memoryMib: 160 };
const HOUR_S = 3_600;

/** Where the parts of the VMM are, on the host and in the jail. */
let vmmDir: string;
let dir: string;
let host: RealHost;
let key: string;
let count = 0;

/** The attacker's report. A path has the code of the error, or `done`; a descriptor has the ways that worked. */
interface Report {
  readonly paths: Readonly<Record<string, string>>;
  readonly descriptors: readonly { readonly fd: number; readonly kind: string; readonly done: readonly string[] }[];
}

/** Runs in the jail in QEMU's place. It tries each way to a snapshot that a program has. */
const ATTACK = `
const fs = require('node:fs');
const { dirname, join } = require('node:path');
const targets = JSON.parse(fs.readFileSync(join(__dirname, 'targets.json'), 'utf8'));
const paths = {};
const attempt = (name, act) => {
  try { act(); paths[name] = 'done'; } catch (error) { paths[name] = error.code ?? String(error); }
};
for (const path of targets) {
  attempt('list ' + path, () => fs.readdirSync(path));
  attempt('open ' + path, () => fs.closeSync(fs.openSync(path, 'r+')));
  attempt('make ' + path, () => fs.writeFileSync(path, 'attack'));
  attempt('chmod ' + path, () => fs.chmodSync(path, 0o777));
  attempt('rename ' + path, () => fs.renameSync(path, path + '.attack'));
  attempt('unlink ' + path, () => fs.rmSync(path, { recursive: true }));
  attempt('link ' + path, () => fs.linkSync(path, '/scratch.attack'));
}
for (const path of ['/proc/1/root', '/proc/1/fd']) attempt('list ' + path, () => fs.readdirSync(path));
const descriptors = [];
// The program has opened others for itself.
for (const fd of process.argv.slice(2).map(Number)) {
  let facts;
  try { facts = fs.fstatSync(fd); } catch { continue; }
  const kind = facts.isFile() ? 'file' : facts.isFIFO() ? 'pipe' : facts.isSocket() ? 'socket' : facts.isDirectory() ? 'folder' : 'other';
  if (kind === 'other') continue;
  const done = [];
  const act = (name, work) => { try { work(); done.push(name); } catch { /* This way is closed. */ } };
  if (kind === 'folder') act('list', () => fs.readdirSync('/proc/self/fd/' + fd));
  // Bytes in a socket would end the VM before the report.
  if (kind === 'pipe') act('write', () => fs.writeSync(fd, 'attack'));
  if (kind === 'file') {
    act('write', () => fs.writeSync(fd, 'attack', 0));
    act('grow', () => fs.ftruncateSync(fd, 1 << 20));
    act('cut', () => fs.ftruncateSync(fd, 0));
    act('chmod', () => fs.fchmodSync(fd, 0o777));
    act('write', () => fs.writeSync(fs.openSync('/proc/self/fd/' + fd, 'r+'), 'attack', 0));
  }
  descriptors.push({ fd, kind, done });
}
fs.writeSync(1, 'REPORT ' + JSON.stringify({ paths, descriptors }) + '\\n');
setTimeout(() => {}, 60000);
`;

beforeAll(async () => {
  const folder = mkdtempSync(join(tmpdir(), 'voidbox-snapshots-hostile-'));
  chmodSync(folder, 0o755);
  vmmDir = join(folder, 'vmm');
  dir = join(folder, 'snapshots');
  const pieces = await resolveHostPieces(readEnvironment(), { install: true, kernelKind: 'debian' });
  const bin = join(vmmDir, 'bin');
  mkdirSync(bin, { recursive: true });
  // It would look for its modules and its firmware beside its own file.
  copyFileSync(pieces.qemu, join(bin, 'qemu'));
  copyFileSync(process.execPath, join(bin, 'node'));
  copyFileSync('/bin/bash', join(bin, 'bash'));
  writeFileSync(join(vmmDir, 'attack.cjs'), ATTACK);
  // The guest of the template takes its time of day from the machine's clock, which is an hour late here, as in a
  // snapshot that is an hour old.
  const late = new Date(Date.now() - HOUR_S * 1000).toISOString().slice(0, 19);
  writeFileSync(
    join(bin, 'vmm'),
    `#!${bin}/bash
if [ -e ${vmmDir}/hostile ]; then
  for fd in {3..254}; do { true >&$fd; } 2> /dev/null && inherited="$inherited $fd"; done
  exec ${bin}/node ${vmmDir}/attack.cjs $inherited
fi
for modules in /usr/lib/*/qemu; do export QEMU_MODULE_DIR=$modules; done
exec -a qemu-system-x86_64 ${bin}/qemu -L /usr/share/qemu -L /usr/share/seabios -rtc base=${late} "$@"
`,
  );
  for (const name of ['vmm', 'qemu', 'node', 'bash']) chmodSync(join(bin, name), 0o755);
  host = await createRealHost({ ...pieces, qemu: join(bin, 'vmm') }, { snapshots: { dir, maxMib: 1024 } });
}, 300_000);
afterAll(async () => {
  const left = await host.dispose();
  rmSync(join(vmmDir, '..'), { recursive: true, force: true });
  if (left.length > 0) throw new Error(`VMs are left: ${left.join(', ')}`);
});

const newKey = () => ({ runId: 'hostile', scope: `vm-${(count += 1)}`, instance: [], generation: 0 });

async function launch(): Promise<Sandbox> {
  return await host.backend.launch(newKey(), VM, limit());
}

/** A guest whose timer does not run on a busy machine boots again, and that boot makes no snapshot. */
async function launchTemplate(): Promise<Sandbox> {
  for (let tries = 1; ; tries += 1) {
    const vm = await launch();
    const isBootedTwice = /reboot: Restarting system/.test(vm.facts.startNote ?? '');
    if (!isBootedTwice || tries === 3) return vm;
    await vm.stop();
  }
}

/** The modification time of a device file is the time of the guest's boot as its kernel knew it. */
const MACHINE = `cut -d ' ' -f 1 /proc/uptime; date -r /dev/null +%s; date +%s; cat /proc/version; hostname`;

interface Machine {
  readonly uptimeMs: number;
  readonly bootedAtS: number;
  readonly nowS: number;
  readonly version: string;
  readonly hostname: string;
}

async function machineOf(vm: Sandbox): Promise<Machine> {
  const [uptime, booted, now, version, hostname] = (await textOf(vm, script(MACHINE))).split('\n');
  return {
    uptimeMs: Number(uptime) * 1000,
    bootedAtS: Number(booted),
    nowS: Number(now),
    version: version!,
    hostname: hostname!,
  };
}

it('a copy is the guest of its snapshot with the time of the host, also if the snapshot is an hour old', async () => {
  const template = await launchTemplate();
  expect(template.facts).toMatchObject({ start: 'cold', startNote: null });
  const first = await machineOf(template);
  await template.stop();
  await expect.poll(() => listSnapshots(dir)).toHaveLength(1);
  key = listSnapshots(dir)[0]!;
  // A mark in the memory of the kernel: a guest that boots does not have it.
  const mark = 'voidbox-nonce';
  const word = Buffer.from('debian-kernel');
  expect(first.version).toContain(word.toString());
  let marks = 0;
  for (const file of namesIn(join(dir, key)).filter((name) => name === 'state' || name === 'memory'))
    changeInside(join(dir, key), file, (bytes) => {
      for (let at = bytes.indexOf(word); at !== -1; at = bytes.indexOf(word, at + 1)) {
        bytes.write(mark, at);
        marks += 1;
      }
    });
  expect(marks).toBeGreaterThan(0);
  makeOlder(join(dir, key), HOUR_S * 1_000);

  const launchedAtMs = Date.now();
  const copy = await launch();
  expect(copy.facts).toMatchObject({ start: 'snapshot', snapshot: key, startNote: null });
  const askedAtMs = Date.now();
  const machine = await machineOf(copy);
  const answeredAtMs = Date.now();
  expect(machine.version).toContain(mark);
  expect(machine.uptimeMs, 'the ticks of a guest that booted for this launch').toBeGreaterThan(
    answeredAtMs - launchedAtMs,
  );
  expect(machine.bootedAtS).toBe(first.bootedAtS);
  expect(machine.bootedAtS, 'the template’s clock was late').toBeLessThan(launchedAtMs / 1000 - HOUR_S + 300);
  expect(machine.nowS).toBeGreaterThanOrEqual(Math.floor(askedAtMs / 1000) - 1);
  expect(machine.nowS).toBeLessThanOrEqual(answeredAtMs / 1000 + 1);
  expect(machine.hostname).toBe('voidbox');
  expectRightClock(await followClock(copy, { lastsMs: 6_000, everyMs: 500 }));
  await copy.stop();
});

it('a VMM that is taken over reaches no snapshot by a path or by a descriptor', async () => {
  const snapshot = join(dir, key);
  const files = namesIn(snapshot).map((name) => join(snapshot, name));
  const targets = [dir, snapshot, ...files, join(dir, '.new-attack'), host.vmsDir];
  writeFileSync(join(vmmDir, 'targets.json'), JSON.stringify(targets));
  const before = hashOf(snapshot);
  writeFileSync(join(vmmDir, 'hostile'), '');
  const vmKey = newKey();
  const launching = host.backend.launch(vmKey, VM, limit());
  const log = join(vmRunDir(host.vmsDir, vmKey), 'console.log');
  const text = await soon('the report', () => /^REPORT (.*)$/m.exec(readIfThere(log))?.[1]);
  rmSync(join(vmmDir, 'hostile'));
  launching.catch(() => undefined);
  const { paths, descriptors } = JSON.parse(text) as Report;
  expect(Object.keys(paths).length).toBeGreaterThan(40);
  expect(Object.entries(paths).filter(([, result]) => result === 'done')).toEqual([]);
  expect(descriptors.length, 'port, console, mailbox, control, state and memory').toBeGreaterThanOrEqual(6);
  // The VMM may write to its own mailbox, which no other VM has.
  const writable = descriptors.filter(({ done }) => done.length > 0);
  expect(writable.map(({ kind, done }) => [kind, done.includes('write')])).toEqual([['file', true]]);
  const cold = await launching;
  const startNote = expect.stringContaining(`snapshot ${key}: `) as string;
  expect(cold.facts).toMatchObject({ start: 'cold', startNote });
  await cold.stop();
  expect(hashOf(snapshot)).toBe(before);
  expect(statSync(snapshot).mode & 0o777).toBe(0o700);
  const copy = await launch();
  expect(copy.facts).toMatchObject({ start: 'snapshot', snapshot: key, startNote: null });
  expect(await textOf(copy, request('echo', ['works']))).toBe('works');
  await copy.stop();
});

function readIfThere(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
