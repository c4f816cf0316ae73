/** Commands: their environment, their output, and how they end. */
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import {
  assertSameBytes,
  collect,
  countingBytes,
  follow,
  limit,
  request,
  run,
  script,
  stdinOf,
  textOf,
  type Behaviour,
} from './behaviour.ts';

const MIB = 1024 * 1024;

/** Each line fails if an option behaves differently from other systems. */
const TOOLS: Readonly<Record<string, string>> = {
  wget: `mkdir www; echo hello > www/a; httpd -f -p 127.0.0.1:8123 -h www & server=$!
    for try in 1 2 3 4 5 6 7 8 9 10; do wget -q -T 5 -O out http://127.0.0.1:8123/a && break; sleep 0.3; done
    test "$(cat out)" = hello
    test "$(wget -qO- -T 2 -t 1 -U agent --header 'X-Of: us' http://127.0.0.1:8123/a)" = hello
    wget -q -P into http://127.0.0.1:8123/a && test -f into/a
    ! wget -q -T 2 --spider http://127.0.0.1:8123/none
    kill $server
    nc -l -p 8124 > /dev/null & silent=$!; sleep 0.3
    ! timeout 20 wget -q -T 1 -O - http://127.0.0.1:8124/; kill $silent || true`,
  tar: `mkdir -p in/deep; echo a > in/a; echo b > in/deep/b; ln -s a in/link; chmod 750 in/deep/b
    tar -czf all.tgz in; tar -tzf all.tgz | grep -q in/deep/b
    mkdir one; tar -xzf all.tgz -C one --strip-components=1; test "$(cat one/deep/b)" = b
    test "$(stat -c %a one/deep/b)" = 750; test "$(readlink one/link)" = a
    test "$(tar -xzOf all.tgz in/a)" = a
    tar -cjf all.tbz in; tar -xjf all.tbz -C one;
    tar -cf few.tar in/a; test "$(tar -tf few.tar)" = in/a`,
  find: `mkdir -p d/skip/e; touch 'd/a b' d/c.txt; head -c 3000 /dev/zero > d/big; touch -d @1000 d/old
    test "$(find d -name '*.txt')" = d/c.txt; test "$(find d -type d | wc -l)" = 3
    test "$(find d -maxdepth 1 -mindepth 1 -type f | wc -l)" = 4; test "$(find d -type f -size +2k)" = d/big
    test "$(find d -name skip -prune -o -type d -print)" = d; test "$(find d -mtime +10)" = d/old
    test "$(find d -type f ! -newer d/old)" = d/old; test "$(find d -iname 'C.*' -exec echo {} +)" = d/c.txt
    test "$(find d -type f -print0 | tr -cd '\\0' | wc -c)" = 4
    find d -name big -exec rm {} \\;; ! test -e d/big; test "$(find d -perm 644 -type f | wc -l)" = 3`,
  xargs: `test "$(printf 'a\\nb\\nc\\n' | xargs -n 2 echo | wc -l)" = 2
    test "$(printf 'a b\\0c' | xargs -0 -n 1 echo | head -1)" = 'a b'
    test "$(printf 'x\\ny\\n' | xargs -I {} echo '<{}>' | tr -d '\\n')" = '<x><y>'
    test -z "$(printf '' | xargs -r echo no)"; printf '1 2 3 4' | xargs -P 2 -n 1 sh -c 'test -n "$0"'
    ! printf 'a' | xargs false`,
  sed: `printf 'one\\ntwo\\nthree\\n' > f; sed -i 's/two/2/' f; test "$(sed -n 2p f)" = 2
    test "$(sed -E 's/(o)(n)e/\\2\\1/' f | head -1)" = no; test "$(sed -e 1d -e '$d' f)" = 2
    test "$(echo aXbXc | sed 's/x/-/2I')" = aXb-c; test "$(sed -n '/one/,/2/p' f | wc -l)" = 2
    sed -i.bak '2d' f; test "$(wc -l < f.bak)" = 3; test "$(echo a/b | sed 's|/|:|g')" = a:b`,
  date: `test "$(date -u -d @0 +%Y-%m-%dT%H:%M:%SZ)" = 1970-01-01T00:00:00Z
    test "$(date -u -d '2026-01-02 03:04:05' +%s)" = 1767323045; test "$(date +%s)" -gt 1700000000
    test "$(date -u -I -d @86400)" = 1970-01-02; touch -d @5 f; test "$(date -u -r f +%s)" = 5; date -R -u > /dev/null`,
  timeout: `timeout 5 true; r=0; timeout 1 sleep 20 || r=$?; test $r = 143 -o $r = 124
    r=0; timeout -s KILL 1 sleep 20 || r=$?; test $r = 137 -o $r = 124
    r=0; timeout -k 1 1 sh -c 'trap "" TERM; sleep 20; :' || r=$?; test $r != 0; r=0; timeout 5 false || r=$?; test $r = 1`,
  nc: `nc -l -p 8125 > got & server=$!; sleep 0.5; echo over | nc -w 2 127.0.0.1 8125; wait $server; test "$(cat got)" = over
    ! nc -w 1 127.0.0.1 8126 < /dev/null`,
};

export const COMMANDS: readonly Behaviour[] = [
  {
    name: 'exit codes come through',
    guest: 'any',
    async run(c) {
      const sandbox = await c.shared();
      assert.deepEqual(pick((await run(sandbox, request('true'))).exit), { reason: 'exited', exitCode: 0 });
      assert.deepEqual(pick((await run(sandbox, request('false'))).exit), { reason: 'exited', exitCode: 1 });
    },
  },
  {
    name: 'exit codes of scripts and of signals come through',
    guest: 'real',
    async run(c) {
      const sandbox = await c.shared();
      assert.deepEqual(pick((await run(sandbox, script('exit 42'))).exit), { reason: 'exited', exitCode: 42 });
      assert.equal((await run(sandbox, script('kill -9 $$'))).exit.exitCode, 137);
      assert.equal((await run(sandbox, script('kill -15 $$'))).exit.exitCode, 143);
    },
  },
  {
    name: 'a command gets its arguments, variables and folder',
    guest: 'any',
    async run(c) {
      const sandbox = await c.shared();
      assert.equal(await textOf(sandbox, request('echo', ['a b', '', '$HOME', "it's"])), "a b  $HOME it's");
      assert.equal(await textOf(sandbox, request('pwd', [], { cwd: '/tmp' })), '/tmp');
      const variables = (
        await textOf(sandbox, request('env', [], { env: { GREETING: 'hello = world', EMPTY: '' } }))
      ).split('\n');
      assert.ok(variables.includes('GREETING=hello = world') && variables.includes('EMPTY='), variables.join(' | '));
    },
  },
  {
    name: 'a command is uid 1000 without other groups, capabilities or a way to more',
    guest: 'real',
    async run(c) {
      const sandbox = await c.shared();
      assert.equal(await textOf(sandbox, script('echo $(id -u) $(id -g) $(id -G)')), '1000 1000 1000');
      const status = await textOf(sandbox, request('cat', ['/proc/self/status']));
      assert.match(status, /^CapEff:\s+0{16}$/m);
      assert.match(status, /^CapBnd:\s+0{16}$/m);
      assert.match(status, /^NoNewPrivs:\s+1$/m);
      assert.equal(
        await textOf(sandbox, script('echo $HOME; cd; pwd; touch here && rm here')),
        '/home/sandbox\n/home/sandbox',
      );
      assert.notEqual((await run(sandbox, script('echo x > /dev/vport0p1'))).exit.exitCode, 0);
      assert.notEqual((await run(sandbox, script('touch /usr/x || touch /etc/x'))).exit.exitCode, 0);
    },
  },
  {
    name: 'a command makes user namespaces',
    guest: 'real',
    async run(c) {
      assert.equal(await textOf(await c.shared(), script("unshare -Ur sh -c 'id -u'")), '0');
    },
  },
  {
    name: 'two outputs of one program keep their order',
    guest: 'real',
    async run(c) {
      const sandbox = await c.shared();
      const loop = 'for i in 1 2 3 4 5 6 7 8; do echo out$i; echo err$i >&2; done';
      const expected = Array.from({ length: 8 }, (_, at) => `out${at + 1}\nerr${at + 1}\n`).join('');
      let exec!: Awaited<ReturnType<typeof sandbox.exec>>;
      // Short programs, because one of them wrote all of both outputs before its first output was read.
      for (let round = 0; round < 20; round++) {
        exec = await sandbox.exec(request('sh', ['-c', loop]), limit());
        const pieces = exec.outputs?.({ stdout: 0, stderr: 0 }, limit());
        assert.ok(pieces, 'the backend knows no order');
        let text = '';
        for await (const { bytes } of pieces) text += Buffer.from(bytes).toString();
        assert.equal(text, expected);
      }
      // From the point at which both streams have seven lines.
      const rest = exec.outputs?.({ stdout: 35, stderr: 35 }, limit());
      let last = '';
      for await (const { stream, bytes } of rest!) last += `${stream} ${Buffer.from(bytes).toString()}`;
      assert.equal(last, 'stdout out8\nstderr err8\n');
    },
  },
  {
    name: 'tools of the base image have their usual options',
    guest: 'real',
    image: 'base',
    async run(c) {
      const sandbox = await c.shared();
      for (const [tool, text] of Object.entries(TOOLS)) {
        const commands = `cd "$(mktemp -d)" && set -e\n${text}\necho done`;
        const { exit, stdout, stderr } = await run(sandbox, request('sh', ['-c', commands]));
        assert.equal(exit.exitCode, 0, `${tool}: ${String(stdout)}${String(stderr)}`);
        assert.match(String(stdout), /done\n$/, tool);
      }
    },
  },
  {
    name: 'one MiB of standard input is echoed, byte for byte, while output flows',
    guest: 'any',
    async run(c) {
      const body = countingBytes(MIB + 13);
      const { exit, stdout } = await run(await c.shared(), request('cat', [], { stdin: stdinOf(body) }));
      assert.equal(exit.exitCode, 0);
      assertSameBytes(stdout, body, 'echo');
    },
  },
  {
    name: 'no standard input is an empty one',
    guest: 'any',
    async run(c) {
      const sandbox = await c.shared();
      assert.equal((await run(sandbox, request('cat'))).stdout.length, 0);
      assert.equal((await run(sandbox, request('cat', [], { stdin: stdinOf(Buffer.alloc(0)) }))).stdout.length, 0);
    },
  },
  {
    name: 'a command that does not read its input ends all the same',
    guest: 'any',
    async run(c) {
      const { exit } = await run(await c.shared(), request('true', [], { stdin: stdinOf(Buffer.alloc(4 * MIB)) }));
      assert.deepEqual(pick(exit), { reason: 'exited', exitCode: 0 });
    },
  },
  {
    name: 'every byte value comes through both ways',
    guest: 'any',
    async run(c) {
      const body = Buffer.from(Array.from({ length: 4096 }, (_, index) => index % 256));
      assertSameBytes(
        (await run(await c.shared(), request('cat', [], { stdin: stdinOf(body) }))).stdout,
        body,
        'bytes',
      );
    },
  },
  {
    name: 'standard output and error are kept apart',
    guest: 'real',
    async run(c) {
      const { stdout, stderr } = await run(
        await c.shared(),
        script('for i in 1 2 3; do echo out $i; echo err $i >&2; done'),
      );
      assert.equal(stdout.toString(), 'out 1\nout 2\nout 3\n');
      assert.equal(stderr.toString(), 'err 1\nerr 2\nerr 3\n');
    },
  },
  {
    name: 'commands run at the same time',
    guest: 'any',
    async run(c) {
      const sandbox = await c.shared();
      const [a, b] = await Promise.all([run(sandbox, request('sleep', ['1'])), run(sandbox, request('sleep', ['1']))]);
      assert.ok(a.exit.startedAtMs < b.exit.endedAtMs && b.exit.startedAtMs < a.exit.endedAtMs, 'they did not overlap');
    },
  },
  {
    name: 'the end is never told before the last byte is readable',
    guest: 'any',
    async run(c) {
      const sandbox = await c.shared();
      for (let round = 0; round < 10; round += 1) {
        const body = countingBytes(100_000 + round);
        const exec = await sandbox.exec(request('cat', [], { stdin: stdinOf(body) }), limit());
        const exit = await exec.wait(limit());
        assert.equal(exit.stdoutBytes, body.length);
        assertSameBytes(await collect(exec.output('stdout', 0, limit())), body, `round ${round}`);
        const tail = await collect(exec.output('stdout', body.length - 5, limit()));
        assertSameBytes(tail, body.subarray(-5), 'from an offset');
        await exec.acknowledge();
      }
    },
  },
  {
    name: 'input of unknown length arrives completely, also if it is empty',
    guest: 'any',
    async run(c) {
      const sandbox = await c.shared();
      const body = countingBytes(700_001);
      for (const chunks of [[], [body.subarray(0, 3), body.subarray(3, 400_000), body.subarray(400_000)]]) {
        const source = async function* (): AsyncGenerator<Uint8Array, void, void> {
          for (const chunk of chunks) {
            await new Promise((resolve) => setTimeout(resolve, 5));
            yield chunk;
          }
        };
        const stdin = { sizeBytes: null, open: source };
        const exec = await sandbox.exec(request('cat', [], { stdin }), limit());
        assert.deepEqual(pick(await exec.wait(limit())), { reason: 'exited', exitCode: 0 });
        assertSameBytes(await collect(exec.output('stdout', 0, limit())), Buffer.concat(chunks), 'bytes');
        await exec.acknowledge();
      }
    },
  },
  {
    name: 'commands are listed until they are acknowledged',
    guest: 'any',
    async run(c) {
      const sandbox = await c.shared();
      const asked = request('sleep', ['60']);
      const exec = await sandbox.exec(asked, limit());
      const listed = async (): Promise<readonly unknown[]> =>
        (await sandbox.execs()).filter(({ key }) => key === asked.key);
      assert.deepEqual(await listed(), [{ key: asked.key, isRunning: true }]);
      await exec.signal('SIGKILL');
      await exec.wait(limit());
      assert.deepEqual(await listed(), [{ key: asked.key, isRunning: false }]);
      await exec.acknowledge();
      assert.deepEqual(await listed(), []);
    },
  },
  {
    name: 'a program that is not there cannot start: 127',
    guest: 'any',
    async run(c) {
      const { exit } = await run(await c.shared(), request('no-such-program'));
      assert.deepEqual(pick(exit), { reason: 'cannot-start', exitCode: 127 });
      assert.match(exit.message, /no-such-program/);
    },
  },
  {
    name: 'a file that may not be executed cannot start: 126',
    guest: 'real',
    async run(c) {
      const { exit } = await run(await c.shared(), request('/etc/passwd'));
      assert.deepEqual(pick(exit), { reason: 'cannot-start', exitCode: 126 });
    },
  },
  {
    name: 'a folder that is not there keeps a command from starting',
    guest: 'any',
    async run(c) {
      const { exit } = await run(await c.shared(), request('true', [], { cwd: '/no/such/folder' }));
      assert.equal(exit.reason, 'cannot-start');
      assert.match(exit.message, /\/no\/such\/folder/);
    },
  },
  {
    name: 'a signal ends a command: 128 + n',
    guest: 'any',
    async run(c) {
      const sandbox = await c.shared();
      for (const [name, exitCode] of [
        ['SIGTERM', 143],
        ['SIGKILL', 137],
      ] as const) {
        const exec = await sandbox.exec(request('sleep', ['60']), limit());
        await new Promise((resolve) => setTimeout(resolve, 300));
        await exec.signal(name);
        const { exit } = await follow(exec);
        assert.equal(exit.exitCode, exitCode, name);
        await exec.acknowledge();
      }
    },
  },
  {
    name: 'a signal is named only if it ended the command',
    guest: 'real',
    async run(c) {
      const sandbox = await c.shared();
      for (const code of [130, 137, 200, 255]) {
        const { exit } = await run(sandbox, script(`exit ${code}`));
        assert.deepEqual([exit.exitCode, exit.signal], [code, null]);
      }
      assert.equal((await run(sandbox, script('kill -9 $$'))).exit.signal, 9);
    },
  },
  {
    name: 'the first cause of an end counts, also for a client that attaches, unless the command ended before',
    guest: 'any',
    async run(c) {
      const sandbox = await c.shared();
      const wanted = request('sleep', ['60']);
      const exec = await sandbox.exec(wanted, limit());
      await new Promise((resolve) => setTimeout(resolve, 300));
      await exec.end({ kind: 'cancel' }, 5_000);
      const cause = { kind: 'failure', code: 'agent/budget-tokens', words: 'used 9 tokens' } as const;
      await exec.end(cause, 5_000);
      const { exit } = await follow(exec);
      assert.deepEqual([exit.exitCode, exit.signal, exit.cause], [143, 15, { kind: 'cancel' }]);
      assert.deepEqual(await (await sandbox.exec(wanted, limit())).wait(limit()), exit);
      await exec.acknowledge();
      const ended = request('true');
      const first = await sandbox.exec(ended, limit());
      await first.wait(limit());
      await first.end(cause, 0);
      assert.equal((await (await sandbox.exec(ended, limit())).wait(limit())).cause, null);
      await first.acknowledge();
    },
  },
  {
    name: 'a command that exits with 0 after SIGTERM has the cause of that',
    guest: 'real',
    async run(c) {
      const sandbox = await c.shared();
      const wanted = script("trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done");
      const exec = await sandbox.exec(wanted, limit());
      for await (const _ of exec.output('stdout', 0, limit())) break;
      const cause = { kind: 'failure', code: 'agent/budget-tokens', words: 'used 9 tokens' } as const;
      await exec.end(cause, 20_000);
      const { exit } = await follow(exec);
      assert.deepEqual([exit.exitCode, exit.signal, exit.cause], [0, null, cause]);
      await exec.acknowledge();
    },
  },
  {
    name: 'a signal reaches the whole process group',
    guest: 'real',
    async run(c) {
      const sandbox = await c.shared();
      const exec = await sandbox.exec(script('sleep 4321 & sleep 4321 & (sleep 4321 &) ; wait'), limit());
      await new Promise((resolve) => setTimeout(resolve, 500));
      await exec.signal('SIGKILL');
      const { exit } = await follow(exec);
      assert.equal(exit.exitCode, 137);
      assert.equal(await textOf(sandbox, script('ps | grep -c "[s]leep 4321" || true')), '0');
    },
  },
  {
    name: 'a command pauses while its files are read, within its limit, and continues',
    guest: 'real',
    async run(c) {
      const sandbox = await c.shared();
      const beat = 'while :; do echo x >> /tmp/beats; sleep 0.05; done';
      const exec = await sandbox.exec(script(`(${beat}) & ${beat}`), limit());
      const beats = async (): Promise<number> => {
        const file = await sandbox.readFile('/tmp/beats', limit());
        return file === null ? 0 : (await collect(file.bytes)).length;
      };
      const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
      while ((await beats()) === 0) await pause(50);
      const seen: number[] = [];
      const count = async (): Promise<void> => {
        seen.push(await beats());
        await pause(300);
        seen.push(await beats());
        // A second freeze at the same time would let the command continue during the first.
        assert.equal(await exec.whileFrozen(5_000, async () => assert.fail('frozen twice'), limit()), false);
      };
      assert.equal(await exec.whileFrozen(20_000, count, limit()), true);
      assert.equal(seen[0], seen[1], 'it ran while it was frozen');
      while ((await beats()) === seen[1]) await pause(50);
      // After the limit the guest releases the command, even if no worker is there to ask for it.
      assert.equal(await exec.whileFrozen(200, () => pause(1_000), limit()), false);
      const failing = exec.whileFrozen(20_000, () => Promise.reject(new Error('no room')), limit());
      await assert.rejects(failing, /no room/);
      const before = await beats();
      while ((await beats()) === before) await pause(50);
      // A frozen command can be ended.
      await exec.whileFrozen(
        10_000,
        () =>
          exec
            .signal('SIGKILL')
            .then(() => exec.wait(limit()))
            .then(() => undefined),
        limit(),
      );
      assert.equal((await exec.wait(limit())).exitCode, 137);
      assert.equal(await exec.whileFrozen(5_000, async () => assert.fail('it has ended'), limit()), false);
      await exec.acknowledge();
    },
  },
  {
    name: 'what a command leaves running dies with it',
    guest: 'real',
    async run(c) {
      const sandbox = await c.shared();
      const { exit } = await run(sandbox, script('setsid sleep 4322 >/dev/null 2>&1 & echo started'));
      assert.equal(exit.exitCode, 0);
      assert.equal(await textOf(sandbox, script('ps | grep -c "[s]leep 4322" || true')), '0');
    },
  },
];

function pick({ reason, exitCode }: { readonly reason: string; readonly exitCode: number }): object {
  return { reason, exitCode };
}
