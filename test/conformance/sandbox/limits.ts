/** Limits: time, output, and resources that a guest can use up. The VM continues after each of them. */
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import type { VmUsage } from '../../../activities/ports/sandbox.ts';
import {
  assertCode,
  assertSameBytes,
  chunks,
  countingBytes,
  limit,
  request,
  run,
  script,
  stdinOf,
  textOf,
  withOwnVm,
  type Behaviour,
} from './behaviour.ts';

const MIB = 1024 * 1024;

/**
 * One read that takes more memory than the guest gives its users, and less than the guest has: more is refused before it is
 * taken.
 */
const TAKE_AT_ONCE =
  'set -- $(grep MemTotal /proc/meminfo); exec dd if=/dev/zero of=/dev/null count=1 bs=$(($2 - 4096))k';
/** Small pieces, by a program whose own code the kernel may free: in the dev image it takes five times the CPU time. */
const TAKE_SLOWLY = 'exec tail /dev/zero';

export const LIMITS: readonly Behaviour[] = [
  {
    name: 'a command past its time gets SIGTERM',
    guest: 'any',
    async run(c) {
      const { exit } = await run(await c.shared(), request('sleep', ['60'], { timeoutMs: 700 }));
      assert.equal(exit.reason, 'timeout');
      assert.equal(exit.exitCode, 143);
      const tookMs = exit.endedAtMs - exit.startedAtMs;
      assert.ok(tookMs >= 690 && tookMs < 15_000, `${tookMs} ms`);
    },
  },
  {
    name: 'a command past its time has 2 s after SIGTERM, and its exit code does not decide',
    guest: 'real',
    async run(c) {
      const polite = "trap 'sleep 0.5; echo cleaned; exit 0' TERM; while :; do sleep 0.05; done";
      const { exit, stdout } = await run(await c.shared(), script(polite, { timeoutMs: 1_000 }));
      assert.equal(exit.reason, 'timeout');
      assert.equal(exit.exitCode, 0);
      assert.equal(stdout.toString(), 'cleaned\n');
      assert.ok(exit.endedAtMs - exit.startedAtMs >= 1_400, `${exit.endedAtMs - exit.startedAtMs} ms`);
    },
  },
  {
    name: 'a command that ignores signals is killed past its time, with all that it started',
    guest: 'real',
    async run(c) {
      const sandbox = await c.shared();
      const { exit } = await run(
        sandbox,
        script("trap '' TERM INT HUP; setsid sh -c \"trap '' TERM; sleep 4323\" & sleep 4323", { timeoutMs: 1_500 }),
      );
      assert.equal(exit.reason, 'timeout');
      assert.equal(await textOf(sandbox, script('ps | grep -c "[s]leep 4323" || true')), '0');
    },
  },
  {
    name: 'output past the limit ends the command and keeps its beginning and end',
    guest: 'any',
    async run(c) {
      const body = countingBytes(4 * MIB);
      const { exit, stdout } = await run(
        await c.shared(),
        request('cat', [], { stdin: stdinOf(body), maxOutputBytes: 2 * MIB }),
      );
      assert.equal(exit.reason, 'output-limit');
      assert.equal(stdout.length, exit.stdoutBytes);
      assertSameBytes(stdout.subarray(0, 2 * MIB), body.subarray(0, 2 * MIB), 'the first bytes');
      // The rest was in flight when the command was killed; at most the last MiB of it is kept.
      assert.ok(stdout.length > 2 * MIB && stdout.length <= 3 * MIB, `${stdout.length} bytes are kept`);
      const end = stdout.subarray(2 * MIB);
      assertSameBytes(
        end,
        body.subarray(stdout.length + exit.droppedBytes - end.length, stdout.length + exit.droppedBytes),
        'the last bytes',
      );
    },
  },
  {
    name: 'a flood is ended at its limit',
    guest: 'real',
    async run(c) {
      const sandbox = await c.shared();
      const { exit, stdout } = await run(sandbox, request('yes', ['flood'], { maxOutputBytes: 3 * MIB }));
      assert.equal(exit.reason, 'output-limit');
      assert.ok(stdout.length >= 3 * MIB && stdout.length <= 4 * MIB);
      assert.equal(await textOf(sandbox, request('echo', ['after'])), 'after');
    },
  },
  {
    name: 'a full disk fails the command and the transfer, never the VM',
    guest: 'real',
    async run(c) {
      await withOwnVm(c, { diskMib: 48 }, async (sandbox) => {
        const filled = await run(sandbox, script('cat /dev/zero > /workspace/zeroes'));
        assert.notEqual(filled.exit.exitCode, 0);
        assert.match(filled.stderr.toString(), /space/i);
        const body = Buffer.alloc(8 * MIB);
        await assertCode(
          sandbox.writeFile('/workspace/more', body.length, chunks(body), limit()),
          'stage/disk-full',
          'a file onto the full disk',
        );
        await textOf(sandbox, script('rm /workspace/zeroes'));
        await sandbox.writeFile('/workspace/more', body.length, chunks(body), limit());
        assert.equal(await textOf(sandbox, script('wc -c < /workspace/more')), String(body.length));
        for (const dir of ['/tmp', '/home/sandbox', '/dev/shm']) {
          const { exit } = await run(sandbox, script(`cat /dev/zero > ${dir}/zeroes`, { timeoutMs: 40_000 }));
          assert.notEqual(exit.exitCode, 0, dir);
          await run(sandbox, script(`rm -f ${dir}/zeroes`));
        }
        assert.equal(await textOf(sandbox, request('echo', ['after'])), 'after');
      });
    },
  },
  {
    name: 'memory that is used up kills the command, never the agent',
    guest: 'real',
    async run(c) {
      const sandbox = await c.shared();
      for (const line of [TAKE_AT_ONCE, TAKE_SLOWLY]) {
        const { exit } = await run(sandbox, script(line, { timeoutMs: 100_000 }));
        assert.equal(exit.exitCode, 137, `${line}: ${exit.reason} ${exit.message}`);
        assert.equal(await textOf(sandbox, request('echo', ['after'])), 'after');
      }
    },
  },
  {
    name: 'a command has the time of the host, within a second: certificates are valid from its start',
    guest: 'real',
    async run(c) {
      const sandbox = await c.shared();
      const beforeMs = Date.now();
      const guestMs = 1_000 * Number(await textOf(sandbox, request('date', ['+%s'])));
      // The guest prints whole seconds, so its clock may be up to one second ahead of the printed time.
      assert.ok(guestMs + 1_000 > beforeMs - 1_000 && guestMs < Date.now() + 1_000, `${guestMs} at ${beforeMs}`);
    },
  },
  {
    name: 'a VM reports what it uses of its host: each figure is a number or unknown',
    guest: 'any',
    async run(c) {
      const usage = await (await c.shared()).usage();
      assert.ok(usage !== null, 'a VM of this build tells');
      for (const [name, figure] of Object.entries(usage))
        assert.ok(figure === null || (Number.isSafeInteger(figure) && figure >= 0), `${name} = ${figure}`);
    },
  },
  {
    name: 'what a VM takes of its host grows with what its commands do',
    guest: 'real',
    async run(c) {
      await withOwnVm(c, {}, async (sandbox) => {
        const before = known(await sandbox.usage());
        assert.ok(before.cpuMs > 0, 'a boot takes time on a CPU');
        // A VM that starts from a snapshot has only the pages that it has touched: 21 MiB for the kernel and the agent
        // with `voidbox-vmm`. A VM never uses more than its own memory and QEMU's.
        assert.ok(before.memoryPeakMib > 8 && before.memoryPeakMib < c.plan.memoryMib + 1024, describe(before));
        await textOf(sandbox, script('i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done'));
        await textOf(sandbox, script('head -c 33554432 /dev/zero > /workspace/full; sync'));
        const after = known(await sandbox.usage());
        assert.ok(after.cpuMs > before.cpuMs, `${describe(before)}, then ${describe(after)}`);
        assert.ok(after.memoryPeakMib >= before.memoryPeakMib, `${describe(before)}, then ${describe(after)}`);
        assert.ok(after.diskBytes >= before.diskBytes + 24 * MIB, `${describe(before)}, then ${describe(after)}`);
        assert.ok(after.diskBytes < (c.plan.diskMib + 16) * MIB, describe(after));
      });
    },
  },
  {
    name: 'processes that are used up fail the command, never the agent',
    guest: 'real',
    async run(c) {
      const sandbox = await c.shared();
      const { exit } = await run(
        sandbox,
        script('bomb() { bomb | bomb & }; bomb; sleep 30', { timeoutMs: 4_000, maxOutputBytes: 4 * MIB }),
      );
      assert.ok(exit.reason === 'timeout' || exit.reason === 'exited' || exit.reason === 'output-limit', exit.reason);
      assert.equal(await textOf(sandbox, request('echo', ['after'])), 'after');
      const left = Number(await textOf(sandbox, script('ps | wc -l')));
      assert.ok(left < 100, `${left} processes are left`);
    },
  },
];

type Known<T> = { readonly [name in keyof T]: NonNullable<T[name]> };

/** A Linux host reports all figures of a real VM. */
function known(usage: VmUsage | null): Known<VmUsage> {
  const { cpuMs, memoryPeakMib, diskBytes } = usage ?? assert.fail('a VM of this build tells');
  assert.ok(cpuMs !== null && memoryPeakMib !== null && diskBytes !== null, JSON.stringify(usage));
  return { cpuMs, memoryPeakMib, diskBytes };
}

const describe = (usage: VmUsage): string => JSON.stringify(usage);
