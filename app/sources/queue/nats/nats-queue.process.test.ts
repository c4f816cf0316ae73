/** JetStream keeps the promises of a queue; it is the server of NATS itself, as a process. */
import { beforeAll, describe } from 'vitest';
import { testQueues } from '../../../../test/conformance/queues.ts';
import { ensureNatsServer, NATS_BUILD_LIMIT_MS, NO_NATS } from '../../../../test/rig/queues/nats-program.ts';
import { startNatsServer } from '../../../../test/rig/queues/nats-server.ts';
import { openNats } from './open-nats.ts';

describe.skipIf(NO_NATS !== null)(`NATS${NO_NATS === null ? '' : ` (not tested here: ${NO_NATS})`}`, () => {
  beforeAll(async () => void (await ensureNatsServer(console.error)), NATS_BUILD_LIMIT_MS);

  testQueues({
    name: 'of NATS JetStream',
    async start() {
      const server = await startNatsServer();
      await server.addStream();
      return {
        server: server.address,
        open: openNats,
        publish: (...message) => server.publish(...message),
        kill: () => server.kill(),
        start: () => server.start(),
        countUnsettled: (consumer) => server.countUnsettled(consumer),
        stop: () => server.stop(),
      };
    },
  });
});
