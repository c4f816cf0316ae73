/** Rows in which the keeper, the VMM or the worker of a VM dies while a snapshot is made, published, checked or restored. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readlinkSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LaunchSpec, Sandbox, VmKey } from '../../../activities/ports/sandbox.ts';
import { isCodedError } from '../../../domain/errors/coded-error.ts';
import { limit, request, textOf } from '../../conformance/sandbox/behaviour.ts';
import { createRealHost, type RealHost, SMALL_VM } from '../../conformance/sandbox/real-host.ts';
import { descendantsOf, keepersIn, leftoversIn, listSnapshots, partialBytes } from '../../rig/vms/snapshot-folder.ts';
import { expectGone, isVmm } from './deaths.ts';
import type { OnVmm, VmmRow } from './row.ts';

const VM: LaunchSpec = { ...SMALL_VM, memoryMib: 160 };
const OTHER_VM: LaunchSpec = { ...SMALL_VM, memoryMib: 168 };
const LIMIT_MS = 90_000;
/** More than the state of a VM: its memory is being written to the disk. */
const PUBLISHED_BYTES = 1 << 20;

interface Begun {
  readonly key: VmKey;
  /** A failure is a result, because the row kills processes of the launch. */
  readonly outcome: Promise<Sandbox | Error>;
  readonly keeper: number;
  /** How the launch ended; null: it has not. */
  readonly ended: () => string | null;
  readonly giveUp: () => void;
}

/** A host with a folder of snapshots of its own. */
class Crashes {
  readonly dir: string;
  readonly #host: RealHost;
  #count = 0;

  constructor(host: RealHost, dir: string) {
    this.#host = host;
    this.dir = dir;
  }

  static async run({ conformance: c, task }: OnVmm, work: (on: Crashes) => Promise<void>): Promise<void> {
    const folder = mkdtempSync(join(tmpdir(), 'voidbox-crashes-'));
    const dir = join(folder, 'snapshots');
    const host = await createRealHost(task.pieces, {
      bootTimeoutMs: task.bootTimeoutMs,
      snapshots: { dir, maxMib: 512 },
      ...(c.backend.name === 'vmm' ? { vmm: task.vmm! } : {}),
    });
    try {
      await work(new Crashes(host, dir));
    } catch (error) {
      await host.dispose();
      throw error;
    }
    assert.deepEqual(await host.dispose(), [], 'no VM is left');
    rmSync(folder, { recursive: true, force: true });
  }

  async begin(spec: LaunchSpec = VM): Promise<Begun> {
    const before = keepersIn(this.#host.vmsDir);
    const key = this.#newKey();
    const stop = new AbortController();
    const launched = this.#host.backend.launch(key, spec, AbortSignal.any([limit(), stop.signal]));
    const outcome = launched.catch((error: unknown) => error as Error);
    const keeper = await soon('a keeper', () => keepersIn(this.#host.vmsDir).find((pid) => !before.includes(pid)));
    let end: string | null = null;
    void outcome.then((vm) => (end = vm instanceof Error ? vm.message : `${vm.facts.start}, ${vm.facts.startNote}`));
    return { key, outcome, keeper, ended: () => end, giveUp: () => stop.abort() };
  }

  /** Launches a VM, which must begin as `start` says, runs a command in it, and ends it. */
  async expectStart(start: Sandbox['facts']['start'], spec: LaunchSpec = VM, key = this.#newKey()): Promise<void> {
    const vm = await this.#host.backend.launch(key, spec, limit());
    assert.deepEqual([vm.facts.start, vm.facts.startNote], [start, null]);
    await this.#expectWorks(key, vm);
  }

  /** Expects that the VM booted after all, and why. */
  async expectNote({ key, outcome }: Begun, note: RegExp): Promise<void> {
    const vm = await outcome;
    if (vm instanceof Error) throw vm;
    assert.equal(vm.facts.start, 'cold');
    assert.match(vm.facts.startNote ?? '', note);
    await this.#expectWorks(key, vm);
  }

  async #expectWorks(key: VmKey, vm: Sandbox): Promise<void> {
    assert.equal(await textOf(vm, request('echo', ['works'])), 'works');
    await vm.stop();
    await this.#host.backend.release(key);
  }

  /** Kills the keeper. All of its processes end, and the launch fails. */
  async killKeeper({ keeper, outcome }: Begun): Promise<void> {
    const below = descendantsOf(keeper);
    process.kill(keeper, 'SIGKILL');
    const ended = await outcome;
    // Its VM may have been ready already.
    const lost =
      ended instanceof Error ? ended : await ended.exec(request('true'), limit()).catch((error: unknown) => error);
    assert.ok(isCodedError(lost) && lost.code === 'vm/lost', String(lost));
    await expectGone([keeper, ...below]);
  }

  /** Waits until this many snapshots are complete, and nothing is left of others. */
  async expectSnapshots(count: number): Promise<readonly string[]> {
    await soon(`${count} snapshots`, () => listSnapshots(this.dir).length >= count);
    assert.deepEqual([listSnapshots(this.dir).length, leftoversIn(this.dir)], [count, []]);
    return listSnapshots(this.dir);
  }

  #newKey(): VmKey {
    return { runId: 'crashes', scope: `vm-${(this.#count += 1)}`, instance: [], generation: 0 };
  }
}

/** Like the rig's, with a pause that leaves the lab's one CPU to its VMs. */
async function soon<T>(what: string, ask: () => T | null | false | undefined): Promise<T> {
  for (const until = Date.now() + LIMIT_MS; Date.now() < until; await sleep(10)) {
    const answer = ask();
    if (answer !== null && answer !== false && answer !== undefined) return answer;
  }
  throw new Error(`waited ${LIMIT_MS} ms for ${what}`);
}

/** Whether a keeper has an open file for which the test is true. */
function hasFile(keeper: number, test: (target: string, path: string) => boolean): boolean {
  const folder = `/proc/${keeper}/fd`;
  try {
    return readdirSync(folder)
      .map((fd) => join(folder, fd))
      .some((path) => test(readlinkSync(path), path));
  } catch {
    // A descriptor was closed in between.
    return false;
  }
}

/** Waits for a step of a launch. @throws Error if the launch ends before */
function during<T>(what: string, { ended }: Begun, ask: () => T | false | undefined): Promise<T> {
  return soon(what, () => {
    const answer = ask();
    if (answer !== false && answer !== undefined) return answer;
    if (ended() !== null) throw new Error(`the launch ended before ${what}: ${ended()}`);
    return null;
  });
}

/** Waits until a VMM writes the memory of a snapshot. */
function untilWritten(begun: Begun): Promise<boolean> {
  return during('the memory of a snapshot', begun, () =>
    hasFile(begun.keeper, (target, path) => target.startsWith('/memfd:voidbox-snapshot') && statSync(path).blocks > 0),
  );
}

/** Waits until a keeper has opened the memory of a snapshot from which its VM is to start. */
function untilOpened(begun: Begun): Promise<boolean> {
  return during('the file of a snapshot', begun, () => hasFile(begun.keeper, (target) => target.endsWith('/memory')));
}

function untilVmm(begun: Begun): Promise<number> {
  return during('a VMM', begun, () => descendantsOf(begun.keeper).find(isVmm));
}

export const CRASHES: readonly VmmRow[] = [
  {
    name: 'a VMM or a keeper that is killed while a snapshot is made or published leaves none that counts',
    run: (on) =>
      Crashes.run(on, async (crashes) => {
        const saved = await crashes.begin();
        await untilWritten(saved);
        process.kill(await untilVmm(saved), 'SIGKILL');
        await crashes.expectNote(saved, /^no snapshot was made: /);
        await crashes.expectSnapshots(0);

        const made = await crashes.begin();
        await untilWritten(made);
        await crashes.killKeeper(made);
        assert.deepEqual(listSnapshots(crashes.dir), []);
        await crashes.expectStart('cold');
        await crashes.expectSnapshots(1);

        const published = await crashes.begin(OTHER_VM);
        await soon('a memory on the disk', () => (partialBytes(crashes.dir) ?? 0) > PUBLISHED_BYTES);
        await crashes.killKeeper(published);
        const isComplete = listSnapshots(crashes.dir).length > 1;
        await crashes.expectStart(isComplete ? 'snapshot' : 'cold', OTHER_VM);
        await crashes.expectSnapshots(2);
        for (const spec of [VM, OTHER_VM]) await crashes.expectStart('snapshot', spec);
      }),
  },
  {
    name: 'a VMM, a keeper or a worker that ends while a snapshot is checked or restored loses no VM but its own',
    run: (on) =>
      Crashes.run(on, async (crashes) => {
        await crashes.expectStart('cold');
        const [key] = await crashes.expectSnapshots(1);

        const restored = await crashes.begin();
        process.kill(await untilVmm(restored), 'SIGKILL');
        await crashes.expectNote(restored, new RegExp(`^snapshot ${key}: .*; the VM boots instead$`, 's'));

        const checked = await crashes.begin();
        await untilOpened(checked);
        await crashes.killKeeper(checked);

        const running = await crashes.begin();
        await untilVmm(running);
        await crashes.killKeeper(running);

        // A worker that dies lets go of its keeper, and the next one attaches to it.
        const left = await crashes.begin();
        await untilVmm(left);
        left.giveUp();
        assert.ok((await left.outcome) instanceof Error, 'the launch was given up');
        await crashes.expectStart('snapshot', VM, left.key);

        await crashes.expectStart('snapshot');
        assert.deepEqual(await crashes.expectSnapshots(1), [key]);
      }),
  },
];
