/**
 * Measures the proxy ("door") of a VM: its throughput compared with files into the same VM, and the cost of a
 * connection.
 */
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { createQemuBackend } from '../../sandbox/micro-vm/qemu/backend.ts';
import { readHostMemory } from '../../setup/machine/host-memory.ts';
import { resolveOptionalPieces } from '../../setup/resolve.ts';
import { connectArm, downloadArm } from '../door.ts';
import { type Arm, type ArmResult, interleave, measurePairedRatio, spread } from '../measure.ts';
import type { Figure } from '../report.ts';
import { fileArm, onIdleDisk, warmVm } from '../vm.ts';
import type { Bench } from './bench.ts';

const SIZE_BYTES = 64 * 1024 * 1024;
const LEAST_AGAINST_FILES = 0.3;
const BLOCK = Buffer.alloc(256 * 1024, 'voidbox ');

export async function doorFigure(bench: Bench): Promise<Figure> {
  const servers = await startServers();
  try {
    return writeFigure(await measureDoor(bench, servers));
  } finally {
    for (const server of Object.values(servers)) server.close();
  }
}

/** By their names in the guest. */
type Servers = Readonly<Record<'raw' | 'http' | 'short', Server>>;

/** `raw` and `http` send the bytes to each client, `short` ends each connection at once. */
async function startServers(): Promise<Servers> {
  const raw = createServer({ allowHalfOpen: true }, (socket) => sendAll(socket.on('error', () => undefined)));
  const http = createHttpServer((_request, response) => {
    response.writeHead(200, { 'content-length': SIZE_BYTES });
    sendAll(response);
  });
  const short = createServer((socket) => socket.on('error', () => undefined).end('hello\n'));
  return { raw: await startListening(raw), http: await startListening(http), short: await startListening(short) };
}

interface DoorMeasures extends Readonly<Record<'files' | 'service' | 'tunnel' | 'proxy', ArmResult<'mbPerS'>>> {
  readonly connect: ArmResult<'ms'>;
}

async function measureDoor(bench: Bench, { raw, http, short }: Servers): Promise<DoorMeasures> {
  const services = Object.entries({ raw, http, short }).map(([name, server]) => ({
    name,
    host: '127.0.0.1',
    port: findPort(server),
  }));
  await using warm = await warmVm(createBackend(bench), {
    image: { kind: 'dev' },
    memoryMib: 512,
    egress: { allow: [], deny: [], services },
  });
  const { vm } = warm;
  const [files, service, tunnel, proxy] = await interleave(
    [
      toThroughput(fileArm('files', vm)),
      downloadArm('service', vm, `bash -c 'cat </dev/tcp/raw/${findPort(raw)}'`, SIZE_BYTES),
      // The same server and program as below, over a tunnel as for TLS.
      downloadArm('tunnel', vm, `curl -sSf --proxytunnel http://10.0.2.2:${findPort(http)}/`, SIZE_BYTES),
      downloadArm('proxy', vm, `curl -sSf http://10.0.2.2:${findPort(http)}/`, SIZE_BYTES),
    ].map((arm) => onIdleDisk(vm, arm)),
    bench.rounds,
    bench.say,
  );
  const [connect] = await interleave(
    [connectArm('connection', vm, `short/${findPort(short)}`)],
    bench.rounds,
    bench.say,
  );
  return { files: files!, service: service!, tunnel: tunnel!, proxy: proxy!, connect: connect! };
}

function writeFigure({ files, service, tunnel, proxy, connect }: DoorMeasures): Figure {
  const writeRow = (what: string, { rounds }: ArmResult<'mbPerS'>): Figure['rows'][number] => ({
    what,
    value: spread(rounds.map((round) => round.mbPerS)),
    unit: 'MB/s',
  });
  const writeGoal = (what: string, arm: ArmResult<'mbPerS'>): Figure['goals'][number] => {
    const value = measurePairedRatio(arm, files, 'mbPerS').median;
    return {
      what: `${what} against the file, paired`,
      value,
      goal: `≥ ${LEAST_AGAINST_FILES}`,
      met: value >= LEAST_AGAINST_FILES,
    };
  };
  return {
    title: '(m) The door of a VM',
    method:
      'A program of the guest gets 64 MiB from a server of this host and writes a file. The ways take turns: a service, a tunnel of the HTTP proxy (`CONNECT`, as for TLS), the proxy as plain HTTP, and the file operations. Each begins when the guest has written all before it to its disk. Sizes are checked. A connection: from the connect of a program to the first line of the server, the mean of 50 one after the other. Programs read in large pieces (`cat`, `curl` of the dev image). Debian kernel, one vCPU.',
    rows: [
      writeRow('file of the same size, written', files),
      writeRow('over a service', service),
      writeRow('over a tunnel of the proxy', tunnel),
      writeRow('HTTP through the proxy', proxy),
      {
        what: 'a connection to a service, to the first line',
        value: spread(connect.rounds.map((round) => round.ms)),
        unit: 'ms',
      },
    ],
    goals: [
      writeGoal('over a service', service),
      writeGoal('over a tunnel of the proxy', tunnel),
      writeGoal('HTTP through the proxy', proxy),
    ],
  };
}

/** Keeps only the write speed of files, because bytes through the door go the same way. */
function toThroughput(files: ReturnType<typeof fileArm>): Arm<'mbPerS'> {
  return { name: files.name, round: async () => ({ mbPerS: (await files.round()).writeMbPerS }) };
}

async function startListening<T extends Server>(server: T): Promise<T> {
  server.listen(0, '127.0.0.1');
  await once(server, 'startListening');
  return server;
}

function findPort(server: Server): number {
  return (server.address() as AddressInfo).port;
}

function sendAll(to: NodeJS.WritableStream): void {
  let left = SIZE_BYTES / BLOCK.length;
  const more = (): void => {
    while (left > 0) {
      left -= 1;
      if (!to.write(BLOCK)) return;
    }
    to.end();
  };
  to.on('drain', more);
  more();
}

function createBackend({ env, say, workDir, pieces }: Bench): ReturnType<typeof createQemuBackend> {
  return createQemuBackend({
    vmsDir: join(workDir, 'vms'),
    keeper: pieces.keeper,
    pieces: () => Promise.resolve(pieces),
    extra: async (name) => (await resolveOptionalPieces(env, [name], { install: true, onProgress: say })).get(name)!,
    hostMemoryMib: () => readHostMemory().totalMib,
  });
}
