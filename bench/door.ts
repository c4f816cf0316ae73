/** Measures a guest program's throughput through the proxy ("door") of its VM. */
import { Buffer } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Sandbox } from '../activities/ports/sandbox.ts';
import type { Arm } from './measure.ts';

const never = new AbortController().signal;
/** As many as may come in a second. */
const CONNECTIONS = 50;

/** `command` prints `sizeBytes` bytes, which a shell writes to a file, because `writeFile` also writes a file. */
export function downloadArm(name: string, vm: Sandbox, command: string, sizeBytes: number): Arm<'mbPerS'> {
  const path = '/workspace/door.bin';
  return {
    name,
    async round() {
      await output(vm, `rm -f ${path}`);
      const began = performance.now();
      await output(vm, `${command} > ${path}`);
      const tookS = (performance.now() - began) / 1000;
      const size = Number(await output(vm, `wc -c < ${path}`));
      if (size !== sizeBytes) throw new Error(`${name}: ${size} of ${sizeBytes} bytes came`);
      return { mbPerS: sizeBytes / 1e6 / tookS };
    },
  };
}

/** From a connect to the first line of the server, by one program; the same without a connection is taken off. */
export function connectArm(name: string, vm: Sandbox, address: string): Arm<'ms'> {
  const repeat = async (what: string): Promise<number> => {
    const began = performance.now();
    await output(vm, `bash -c 'for n in {1..${CONNECTIONS}}; do ${what} || exit 1; done'`);
    return (performance.now() - began) / CONNECTIONS;
  };
  return {
    name,
    async round() {
      const nothing = await repeat('read line </etc/hostname');
      // Those of the round before are no longer counted.
      await sleep(1_100);
      return { ms: (await repeat(`read line </dev/tcp/${address}`)) - nothing };
    },
  };
}

async function output(vm: Sandbox, script: string): Promise<string> {
  const exec = await vm.exec(
    {
      key: randomUUID(),
      program: 'sh',
      args: ['-c', script],
      env: {},
      cwd: '/workspace',
      stdin: null,
      timeoutMs: 600_000,
      maxOutputBytes: 1024 * 1024,
    },
    never,
  );
  const parts: Uint8Array[] = [];
  for await (const chunk of exec.output('stdout', 0, never)) parts.push(chunk);
  const exit = await exec.wait(never);
  await exec.acknowledge();
  if (exit.exitCode !== 0) throw new Error(`${script} ended with ${exit.exitCode}: ${exit.message}`);
  return Buffer.concat(parts).toString().trim();
}
