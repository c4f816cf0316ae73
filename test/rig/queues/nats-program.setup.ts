/** Beside the first tests of processes: the server of NATS is built, and its tests wait for it. */
import { ensureNatsServer, NO_NATS } from './nats-program.ts';

export default function setup(): (() => Promise<void>) | undefined {
  const print = (line: string): void => console.error(`set-up: ${line}`);
  if (NO_NATS !== null) {
    print(NO_NATS);
    return undefined;
  }
  // Tests of queues report the failure.
  const building = ensureNatsServer(print).catch(() => undefined);
  return async () => void (await building);
}
