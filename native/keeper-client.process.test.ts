import { Buffer } from 'node:buffer';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  answer,
  fakeKeeper,
  type Handler,
  launchFake,
  soon,
  STATUS,
  useFakeKeepers,
} from '../test/rig/vms/fake-keeper.ts';
import { keepVmAlive } from './index.ts';
import { KeeperLink } from './keeper-link.ts';

useFakeKeepers();

/** Rejects the request a while after the client may begin to send. */
const refuseLater: Handler = (request, socket) => {
  answer(socket, request, {});
  setTimeout(
    () =>
      socket.write(`${JSON.stringify({ id: request['id'], error: { code: 'guest/error', message: 'disk full' } })}\n`),
    200,
  );
};

async function read(bytes: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const chunk of bytes) parts.push(chunk);
  return Buffer.concat(parts);
}

async function* once(...chunks: string[]): AsyncGenerator<Uint8Array> {
  for (const chunk of chunks) yield Buffer.from(chunk);
}

describe('requests', () => {
  it('carry the fence that attaching granted, and tell answers apart by id', async () => {
    const waiting: (() => void)[] = [];
    const keeper = await fakeKeeper({
      renew: (request, socket) => waiting.push(() => answer(socket, request, { leaseLeftMs: request['fence'] })),
      'exec.ack': (request, socket) => {
        answer(socket, request, {});
        for (const late of waiting) late();
      },
    });
    const vm = await launchFake(keeper);
    const renewed = vm.renew();
    await vm.execAck('k');
    expect(await renewed).toBe(7);
  });

  it('reach a socket whose path is too long for an address', async () => {
    const vm = await launchFake(await fakeKeeper({}, { deep: true }));
    expect(vm.fence).toBe(7);
  });

  it('turn codes of the API into codes of ours', async () => {
    const fail =
      (code: string): Handler =>
      (request, socket) =>
        void socket.write(`${JSON.stringify({ id: request['id'], error: { code, message: 'because' } })}\n`);
    const vm = await launchFake(
      await fakeKeeper({
        renew: fail('fence/stale'),
        stats: fail('guest/error'),
        'exec.signal': fail('stage/bad-output'),
        status: fail('api/version'),
        'exec.ack': fail('exec/unknown'),
      }),
    );
    await expect(vm.renew()).rejects.toMatchObject({ code: 'fence/stale', message: 'renew: because' });
    await expect(vm.stats()).rejects.toMatchObject({ code: 'vm/guest-error' });
    await expect(vm.execSignal('k', 'SIGTERM')).rejects.toMatchObject({ code: 'stage/bad-output' });
    await expect(vm.status()).rejects.toMatchObject({
      code: 'vm/lost',
      message: expect.stringContaining('another build') as string,
    });
    await expect(vm.execAck('k')).rejects.toThrow('exec/unknown');
  });

  it('fail with vm/lost if the keeper dies during the request, and the error names the console', async () => {
    const keeper = await fakeKeeper({ 'exec.wait': () => undefined });
    const vm = await launchFake(keeper);
    const waiting = vm.execWait('k', soon());
    waiting.catch(() => undefined);
    await keeper.setState('lost');
    keeper.kill();
    await expect(waiting).rejects.toMatchObject({
      code: 'vm/lost',
      message: expect.stringContaining('console.log') as string,
    });
    await expect(vm.renew()).rejects.toMatchObject({ code: 'vm/lost' });
  });

  it('give the reason that a keeper wrote when it ended its VM', async () => {
    const keeper = await fakeKeeper({ renew: (_, socket) => socket.destroy() });
    const vm = await launchFake(keeper);
    await keeper.setState('stopped', { reason: 'protocol', code: 'vm/protocol', message: 'a frame of 4 GiB' });
    await expect(vm.renew()).rejects.toMatchObject({
      code: 'vm/protocol',
      message: expect.stringContaining('a frame of 4 GiB') as string,
    });
  });

  it('are sent again over a new connection while the keeper lives', async () => {
    let cut = true;
    const keeper = await fakeKeeper({
      renew: (request, socket) => {
        if (cut) socket.destroy();
        else answer(socket, request, { leaseLeftMs: 5 });
        cut = false;
      },
    });
    expect(await (await launchFake(keeper)).renew()).toBe(5);
  });

  it('end with the signal, and with the client', async () => {
    const keeper = await fakeKeeper({ 'exec.wait': () => undefined });
    const vm = await launchFake(keeper);
    const stop = new AbortController();
    const one = vm.execWait('k', stop.signal);
    const two = vm.execWait('k', soon());
    stop.abort(new Error('enough'));
    await expect(one).rejects.toThrow('enough');
    vm.close();
    await expect(two).rejects.toMatchObject({ code: 'fence/stale' });
  });

  it('are refused before they are sent when their line is too long', async () => {
    const vm = await launchFake(await fakeKeeper({}));
    const start = {
      execKey: 'k',
      program: 'sh',
      args: ['x'.repeat(1024 * 1024)],
      env: {},
      cwd: '/',
      uid: 1000,
      gid: 1000,
      stdinBytes: null,
      timeoutMs: 1,
      maxOutputBytes: 1,
    };
    await expect(vm.execStart(start, soon())).rejects.toMatchObject({ code: 'run/too-large' });
  });

  it.each([
    ['garbage', 'no json\n'],
    ['a number', '12\n'],
    ['no id', '{"ok":{}}\n'],
    ['an endless line', 'x'.repeat(3 * 1024 * 1024)],
  ])('fail with vm/protocol when the keeper answers %s', async (_, text) => {
    const vm = await launchFake(await fakeKeeper({ renew: (_request, socket) => void socket.write(text) }));
    await expect(vm.renew()).rejects.toMatchObject({ code: 'vm/protocol' });
  });

  it.each([{ leaseLeftMs: -1 }, { leaseLeftMs: '5' }, { leaseLeftMs: 1e300 }, {}])(
    'fail with vm/protocol for the answer %j',
    async (ok) => {
      const vm = await launchFake(await fakeKeeper({ renew: (request, socket) => answer(socket, request, ok) }));
      await expect(vm.renew()).rejects.toMatchObject({ code: 'vm/protocol' });
    },
  );
});

describe('usage and the reason of a tar', () => {
  const USAGE = { cpuMs: 1_500, memoryPeakMib: 300, diskBytes: null };
  const say =
    (ok: object): Handler =>
    (request, socket) =>
      answer(socket, request, ok);

  it('are read, and a keeper may know no reason', async () => {
    const vm = await launchFake(
      await fakeKeeper({
        usage: say(USAGE),
        'tar.cut': (request, socket) =>
          answer(socket, request, request['path'] === '/a' ? { code: 'stage/bad-output', message: 'a socket' } : {}),
      }),
    );
    expect(await vm.usage()).toEqual(USAGE);
    expect(await vm.tarCut('/a')).toBe('a socket');
    expect(await vm.tarCut('/b')).toBeNull();
  });

  it.each([
    { ...USAGE, cpuMs: -1 },
    { ...USAGE, memoryPeakMib: 'much' },
    { cpuMs: 1, memoryPeakMib: 1 },
  ])('fail with vm/protocol for the usage %j', async (usage) => {
    const vm = await launchFake(await fakeKeeper({ usage: say(usage) }));
    await expect(vm.usage()).rejects.toMatchObject({ code: 'vm/protocol' });
  });

  it('fail with vm/protocol for a reason that is no text', async () => {
    const vm = await launchFake(await fakeKeeper({ 'tar.cut': say({ message: 7 }) }));
    await expect(vm.tarCut('/a')).rejects.toMatchObject({ code: 'vm/protocol' });
  });
});

describe('an op that came after the first release', () => {
  const OP = 'made.up';

  /** Connects a client of a build with the op, and records the ops that its keeper receives. */
  async function linkTo(
    keeperFeatures: readonly string[],
  ): Promise<{ readonly link: KeeperLink; readonly ops: readonly string[] }> {
    const ops: string[] = [];
    const say =
      (ok: object): Handler =>
      (request, socket) => {
        ops.push(request['op'] as string);
        answer(socket, request, ok);
      };
    const keeper = await fakeKeeper({
      status: say({ ...STATUS, features: keeperFeatures }),
      renew: say({ leaseLeftMs: 5 }),
      [OP]: say({ isDone: true }),
    });
    const link = new KeeperLink({ keeper: keeper.binary, dir: keeper.dir, vmKey: 'run/scope/0' }, [OP]);
    onTestFinished(() => link.close(new Error('the test is over')));
    return { link, ops };
  }

  it('is not sent to a keeper that lacks it, and fails clearly', async () => {
    const { link, ops } = await linkTo(['of-another-build']);
    const failure = {
      code: 'vm/lost',
      message: 'VM run/scope/0: its keeper is of an earlier build and lacks an op: made.up',
    };
    await expect(link.request(OP, {})).rejects.toMatchObject(failure);
    await expect(link.open(OP, {}, soon())).rejects.toMatchObject(failure);
    expect(await link.offers(OP)).toBe(false);
    expect(ops).toEqual(['status']);
  });

  it('is sent to a keeper that lists it, which is asked once for its features', async () => {
    const { link, ops } = await linkTo(['of-another-build', OP]);
    expect(await link.request(OP, {})).toEqual({ isDone: true });
    const { stream, answer: head } = await link.open(OP, {}, soon());
    stream.close();
    expect(head).toEqual({ isDone: true });
    expect(ops).toEqual(['status', OP, OP]);
  });

  it('costs other ops nothing', async () => {
    const { link, ops } = await linkTo([]);
    expect(await link.request('renew', {})).toEqual({ leaseLeftMs: 5 });
    expect(ops).toEqual(['renew']);
  });
});

describe('streams', () => {
  it('give the bytes that come with and after the answer line', async () => {
    const vm = await launchFake(
      await fakeKeeper({
        'file.get': (request, socket) => {
          socket.write(`${JSON.stringify({ id: request['id'], ok: { sizeBytes: 10 } })}\nhello`);
          setTimeout(() => socket.end('world'), 20);
        },
      }),
    );
    const file = await vm.getFile('/f', soon());
    expect(file?.sizeBytes).toBe(10);
    expect((await read(file?.bytes ?? once())).toString()).toBe('helloworld');
  });

  it('fail if a file ends early or is too long', async () => {
    const short =
      (size: number): Handler =>
      (request, socket) =>
        void socket.end(`${JSON.stringify({ id: request['id'], ok: { sizeBytes: size } })}\nhello`);
    const one = await (
      await launchFake(
        await fakeKeeper({
          'file.get': short(6),
          renew: (request, socket) => answer(socket, request, { leaseLeftMs: 1 }),
        }),
      )
    ).getFile('/f', soon());
    await expect(read(one?.bytes ?? once())).rejects.toThrow('ended at 5 of 6 bytes');
    const two = await (await launchFake(await fakeKeeper({ 'file.get': short(4) }))).getFile('/f', soon());
    await expect(read(two?.bytes ?? once())).rejects.toMatchObject({ code: 'vm/protocol' });
  });

  it('do not read ahead of a reader that pauses', async () => {
    let sentBytes = 0;
    const vm = await launchFake(
      await fakeKeeper({
        'exec.output': (request, socket) => {
          answer(socket, request, { offset: 0 });
          const chunk = Buffer.alloc(64 * 1024);
          const more = (): void => {
            if (socket.destroyed) return;
            sentBytes += chunk.length;
            if (socket.write(chunk)) setImmediate(more);
            else socket.once('drain', more);
          };
          more();
        },
      }),
    );
    const bytes = vm.execOutput('k', 'stdout', 0, soon());
    await bytes.next();
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(sentBytes).toBeLessThan(4 * 1024 * 1024);
    await bytes.return();
  });

  it('put a file of exactly its size', async () => {
    let got = '';
    const vm = await launchFake(
      await fakeKeeper({
        'file.put': (request, socket) => {
          answer(socket, request, {});
          socket.on('data', (chunk: Buffer) => {
            got += chunk.toString();
            if (got.length === request['sizeBytes']) answer(socket, request, {});
          });
        },
      }),
    );
    await vm.putFile('/f', 0o644, 10, once('hello', 'world'), soon());
    expect(got).toBe('helloworld');
    await expect(vm.putFile('/f', 0o644, 11, once('hello', 'world'), soon())).rejects.toThrow(
      'ended at 10 of 11 bytes',
    );
    await expect(vm.putFile('/f', 0o644, 9, once('hello', 'world'), soon())).rejects.toThrow('more than its 9 bytes');
  });

  it('stop sending when the keeper rejects the transfer in mid-stream', async () => {
    const vm = await launchFake(
      await fakeKeeper({
        'tar.put': (request, socket) => {
          answer(socket, request, {});
          socket.once(
            'data',
            () =>
              void socket.write(
                `${JSON.stringify({ id: request['id'], error: { code: 'guest/error', message: 'disk full' } })}\n`,
              ),
          );
        },
      }),
    );
    async function* endless(): AsyncGenerator<Uint8Array> {
      for (;;) {
        yield Buffer.alloc(64 * 1024);
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    await expect(vm.putTar('/t', endless(), soon())).rejects.toMatchObject({
      code: 'vm/guest-error',
      message: expect.stringContaining('disk full') as string,
    });
  });

  it('report a rejection even while their source pauses', async () => {
    const vm = await launchFake(await fakeKeeper({ 'file.put': refuseLater }));
    async function* resting(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('one');
      await new Promise(() => undefined);
    }
    await expect(vm.putFile('/f', 0o644, 1000, resting(), soon())).rejects.toMatchObject({ code: 'vm/guest-error' });
  });

  it('end their source when the keeper refuses it', async () => {
    const vm = await launchFake(await fakeKeeper({ 'tar.put': refuseLater }));
    let isEnded = false;
    async function* endless(): AsyncGenerator<Uint8Array> {
      try {
        for (;;) {
          yield Buffer.alloc(1024);
          await new Promise((resolve) => setImmediate(resolve));
        }
      } finally {
        isEnded = true;
      }
    }
    await expect(vm.putTar('/t', endless(), soon())).rejects.toMatchObject({ code: 'vm/guest-error' });
    await expect.poll(() => isEnded).toBe(true);
  });

  it("stop at the keeper's answer when it has received a complete tar", async () => {
    const vm = await launchFake(
      await fakeKeeper({
        'tar.put': (request, socket) => {
          answer(socket, request, {});
          socket.once('data', () => answer(socket, request, { entries: 0, bytes: 0 }));
        },
      }),
    );
    async function* padded(): AsyncGenerator<Uint8Array> {
      for (;;) {
        yield Buffer.alloc(64 * 1024);
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    await vm.putTar('/t', padded(), soon());
  });

  it("send standard input from the keeper's offset", async () => {
    let got = '';
    const vm = await launchFake(
      await fakeKeeper({
        'exec.stdin': (request, socket) => {
          answer(socket, request, { offset: 6 });
          socket.on('data', (chunk: Buffer) => (got += chunk.toString()));
          socket.on('end', () => socket.end());
        },
      }),
    );
    await vm.execStdin('k', 11, (offset) => once('hello world'.slice(offset)), soon());
    expect(got).toBe('world');
  });
});

describe('keeping a VM from outside', () => {
  it('renews the lease without taking a fence', async () => {
    const ops: string[] = [];
    const say =
      (ok: object): Handler =>
      (request, socket) => {
        ops.push(request['op'] as string);
        answer(socket, request, ok);
      };
    const keeper = await fakeKeeper({ keepalive: say({ leaseLeftMs: 900_000 }), attach: say({ fence: 4 }) });
    expect(await keepVmAlive(keeper.dir, soon())).toBe(900_000);
    expect(ops).toEqual(['keepalive']);
  });

  it('fails with vm/protocol if the keeper does not answer the length of the lease', async () => {
    const keeper = await fakeKeeper({ keepalive: (request, socket) => answer(socket, request, {}) });
    await expect(keepVmAlive(keeper.dir, soon())).rejects.toMatchObject({ code: 'vm/protocol' });
  });

  it('gives up on a keeper that does not answer, and on one that has ended', async () => {
    const silent = await fakeKeeper({ keepalive: () => undefined });
    await expect(keepVmAlive(silent.dir, AbortSignal.timeout(200))).rejects.toMatchObject({ name: 'TimeoutError' });
    silent.kill();
    await expect(keepVmAlive(silent.dir, soon())).rejects.toMatchObject({ code: 'store/io' });
  });
});
