/** Commands that write without a pause: what they leave to other programs of the guest. */
import assert from 'node:assert/strict';
import { follow, limit, run, script, textOf, type Behaviour } from './behaviour.ts';

export const FLOODS: readonly Behaviour[] = [
  {
    name: 'other programs run and files are read beside floods',
    guest: 'real',
    async run(c) {
      const sandbox = await c.shared();
      const floods = await Promise.all(
        ['echo line', 'echo line; echo line >&2', 'head -c 65536 /dev/zero'].map((write) =>
          sandbox.exec(script(`while :; do ${write}; done`, { maxOutputBytes: 2 ** 31 }), limit()),
        ),
      );
      const beats = 'n=0; while [ $n -lt 10 ]; do n=$((n+1)); sleep 0.02; done; echo beaten > /tmp/beaten; echo done';
      assert.equal(await textOf(sandbox, script(beats)), 'done');
      const file = await sandbox.readFile('/tmp/beaten', limit());
      assert.ok(file !== null);
      for await (const _ of file.bytes);
      const loop = 'for i in 1 2 3 4 5 6 7 8; do echo out$i; echo err$i >&2; done';
      const { exit } = await run(sandbox, script(loop));
      assert.deepEqual([exit.stdoutBytes, exit.stderrBytes], [40, 40]);
      const running = (await sandbox.execs()).filter(({ isRunning }) => isRunning);
      assert.equal(running.length, floods.length, 'the floods last');
      for (const flood of floods) {
        await flood.signal('SIGKILL');
        assert.equal((await follow(flood)).exit.exitCode, 137);
        await flood.acknowledge();
      }
    },
  },
];
