/** Keys, fences and lives: which worker drives a VM, and what happens to a command when its driver goes. */
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import type { Exec, ExecRequest, Sandbox } from '../../../activities/ports/sandbox.ts';
import {
  assertCode,
  assertSameBytes,
  chunks,
  collect,
  countingBytes,
  follow,
  limit,
  request,
  run,
  script,
  stdinOf,
  textOf,
  withOwnVm,
  type Behaviour,
  type Conformance,
} from './behaviour.ts';

const KIB = 1024;
const REATTACHES = 100;

export const ATTACHMENT: readonly Behaviour[] = [
  {
    name: 'a VM says what it is',
    guest: 'any',
    async run(c) {
      const { facts } = await c.shared();
      assert.equal(facts.isolation, c.backend.isolation);
      assert.ok(facts.fence >= 1 && facts.bootMs >= 0);
      const isMock = c.backend.name === 'mock';
      assert.equal(facts.accelerator === 'mock', isMock);
      assert.equal(facts.vmm, c.backend.name);
      assert.ok(isMock || facts.accelerator === 'tcg' || facts.accelerator === 'kvm', facts.accelerator);
      assert.equal(facts.jail === 'none', isMock);
    },
  },
  {
    name: 'the same exec key never starts a second command',
    guest: 'any',
    async run(c) {
      const sandbox = await c.shared();
      const wanted = request('sleep', ['1']);
      const [first, second] = [await sandbox.exec(wanted, limit()), await sandbox.exec(wanted, limit())];
      assert.deepEqual([first.attached, second.attached], [false, true]);
      const [a, b] = await Promise.all([first.wait(limit()), second.wait(limit())]);
      assert.deepEqual(a, b);
      const third = await sandbox.exec({ ...wanted, program: 'false', args: [] }, limit());
      assert.equal((await third.wait(limit())).exitCode, 0);
    },
  },
  {
    name: 'the same exec key runs its command once, also when it is asked for at the same time',
    guest: 'real',
    async run(c) {
      const sandbox = await c.shared();
      const wanted = script('echo ran >> /workspace/once');
      const execs = await Promise.all(Array.from({ length: 5 }, () => sandbox.exec(wanted, limit())));
      await Promise.all(execs.map((exec) => exec.wait(limit())));
      assert.equal(execs.filter((exec) => !exec.attached).length, 1);
      assert.equal(await textOf(sandbox, request('cat', ['/workspace/once'])), 'ran');
    },
  },
  {
    name: 'a second launch attaches and makes the first one stale',
    guest: 'any',
    async run(c) {
      const old = await c.shared();
      const wanted = request('sleep', ['2']);
      const oldExec = await old.exec(wanted, limit());
      const oldWait = oldExec.wait(limit());
      oldWait.catch(() => undefined);
      const current = await c.backend.launch(c.sharedKey, c.plan, limit());
      assert.ok(current.facts.attached);
      assert.ok(current.facts.fence > old.facts.fence, `${current.facts.fence} after ${old.facts.fence}`);
      assert.ok(current.facts.vmLife !== null);
      assert.equal(current.facts.vmLife, old.facts.vmLife);
      await assertStale(old, oldExec);
      const exec = await current.exec(wanted, limit());
      assert.ok(exec.attached);
      assert.equal((await exec.wait(limit())).exitCode, 0);
    },
  },
  {
    name: 'a command continues without an attached client',
    guest: 'any',
    async run(c) {
      const wanted = request('sleep', ['1']);
      const before = await c.shared();
      const started = await before.exec(wanted, limit());
      before.detach();
      await assertCode(before.renew(), 'fence/stale', 'renew after detach');
      await assertCode(started.wait(limit()), 'fence/stale', 'wait after detach');
      await new Promise((resolve) => setTimeout(resolve, 4_000));
      const exec = await (await c.backend.launch(c.sharedKey, c.plan, limit())).exec(wanted, limit());
      assert.ok(exec.attached);
      const exit = await exec.wait(limit());
      assert.ok(exit.endedAtMs - exit.startedAtMs < 3_900, 'it was held up');
    },
  },
  {
    name: `${REATTACHES} re-attaches under a counting stream lose and double nothing, either way`,
    guest: 'any',
    run: reattachOften,
  },
  {
    name: 'a flood of output without an attached client is complete later',
    guest: 'real',
    async run(c) {
      // More bytes than all buffers on their way, in few writes: each write takes a nested VM 10 ms.
      const rest = `of the flood ${'~'.repeat(60)}`;
      const wanted = script(`i=0; while [ $i -lt 5000 ]; do echo "line $i ${rest}"; i=$((i+1)); done`);
      const before = await c.shared();
      await before.exec(wanted, limit());
      before.detach();
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      const { exit, stdout } = await follow(
        await (await c.backend.launch(c.sharedKey, c.plan, limit())).exec(wanted, limit()),
      );
      assert.equal(exit.exitCode, 0);
      const expected = Buffer.from(Array.from({ length: 5_000 }, (_, index) => `line ${index} ${rest}\n`).join(''));
      assertSameBytes(stdout, expected, 'flood');
    },
  },
  {
    name: 'waiting and reading end with their signal',
    guest: 'any',
    async run(c) {
      const sandbox = await c.shared();
      const exec = await sandbox.exec(request('sleep', ['30']), limit());
      const stop = new AbortController();
      const waiting = assert.rejects(exec.wait(stop.signal), /enough/);
      const reading = assert.rejects(collect(exec.output('stdout', 0, stop.signal)), /enough/);
      setTimeout(() => stop.abort(new Error('enough')), 50);
      await Promise.all([waiting, reading]);
      await exec.signal('SIGKILL');
      await exec.wait(limit());
    },
  },
  {
    name: 'release ends a VM by its key, once and for all',
    guest: 'any',
    async run(c) {
      await withOwnVm(c, {}, async (sandbox, key) => {
        const exec = await sandbox.exec(request('sleep', ['60']), limit());
        const waiting = assertCode(exec.wait(limit()), 'vm/lost', 'wait across a release');
        await c.backend.release(key);
        await waiting;
        await assertCode(sandbox.renew(), 'vm/lost', 'renew after a release');
        await assertCode(c.backend.launch(key, c.plan, limit()), 'vm/lost', 'launch after a release');
        await c.backend.release(key);
      });
    },
  },
  {
    name: 'a VM that is released before its launch never starts',
    guest: 'any',
    async run(c) {
      const key = c.newKey();
      await c.backend.release(key);
      await assertCode(c.backend.launch(key, c.plan, limit()), 'vm/lost', 'launch after a release');
      await c.backend.release(key);
    },
  },
  {
    name: 'stop ends a VM and can be said again; the next generation is a new VM',
    guest: 'any',
    async run(c) {
      await withOwnVm(c, {}, async (sandbox, key) => {
        await sandbox.writeFile('/workspace/mark', 1, chunks(Buffer.from('x')), limit());
        await sandbox.stop();
        await sandbox.stop();
        await assertCode(sandbox.renew(), 'vm/lost', 'renew after stop');
        await assertCode(sandbox.usage(), 'vm/lost', 'usage after stop');
        const next = { ...key, generation: key.generation + 1 };
        try {
          const fresh = await c.backend.launch(next, { ...c.plan, mounts: [] }, limit());
          assert.equal(fresh.facts.attached, false);
          assert.notEqual(fresh.facts.vmLife, sandbox.facts.vmLife);
          assert.equal(await fresh.readFile('/workspace/mark', limit()), null);
        } finally {
          await c.backend.release(next);
        }
      });
    },
  },
];

async function assertStale(old: Sandbox, oldExec: Exec): Promise<void> {
  const body = Buffer.from('stale');
  await assertCode(old.renew(), 'fence/stale', 'renew');
  await assertCode(old.usage(), 'fence/stale', 'usage');
  await assertCode(old.exec(request('true'), limit()), 'fence/stale', 'exec');
  await assertCode(old.writeFile('/workspace/stale', body.length, chunks(body), limit()), 'fence/stale', 'writeFile');
  await assertCode(old.putTar('/workspace', chunks(body), limit()), 'fence/stale', 'putTar');
  await assertCode(oldExec.signal('SIGKILL'), 'fence/stale', 'signal');
  await assertCode(oldExec.acknowledge(), 'fence/stale', 'acknowledge');
  await assertCode(oldExec.wait(limit()), 'fence/stale', 'wait');
  await assertCode(old.stop(), 'fence/stale', 'stop');
}

/**
 * A `cat` whose input and output both cross every re-attach. Input is offered only a little ahead of the output that
 * was read back. So each driver has to continue exactly where the last one was cut.
 */
async function reattachOften(c: Conformance): Promise<void> {
  const stepBytes = 40 * KIB;
  const body = countingBytes(REATTACHES * stepBytes);
  let readBytes = 0;
  let wake = (): void => undefined;
  const stdin: ExecRequest['stdin'] = {
    sizeBytes: body.length,
    async *open(offset) {
      for (let at = offset; at < body.length; at += 8 * KIB) {
        while (at > readBytes + 64 * KIB) await new Promise<void>((resolve) => (wake = resolve));
        yield body.subarray(at, at + 8 * KIB);
      }
    },
  };
  const wanted = request('cat', [], { stdin });
  const parts: Uint8Array[] = [];
  let sandbox = await c.shared();
  for (let round = 1; round <= REATTACHES; round += 1) {
    const exec = await sandbox.exec(wanted, limit());
    assert.equal(exec.attached, round > 1);
    const isLast = round === REATTACHES;
    for await (const chunk of exec.output('stdout', readBytes, limit())) {
      parts.push(chunk);
      readBytes += chunk.length;
      wake();
      if (!isLast && readBytes >= round * stepBytes) break;
    }
    if (!isLast) sandbox = await c.backend.launch(c.sharedKey, c.plan, limit());
    else assert.equal((await exec.wait(limit())).stdoutBytes, body.length);
  }
  assertSameBytes(Buffer.concat(parts), body, `after ${REATTACHES} re-attaches`);
  assert.equal(
    (await run(sandbox, request('cat', [], { stdin: stdinOf(Buffer.from('after')) }))).stdout.toString(),
    'after',
  );
}
