/** The fake of tests keeps the promises of a queue, so that what is tested with it holds for a broker. */
import { FakeBroker } from '../../../test/rig/queues/fake-broker.ts';
import { testQueues } from '../../../test/conformance/queues.ts';

testQueues({
  name: 'in memory',
  start() {
    const fake = new FakeBroker();
    fake.addStream('ORDERS');
    return Promise.resolve({
      server: fake.server,
      open: fake.open,
      publish: (subject, body, headers) => Promise.resolve(fake.publish('ORDERS', subject, body, headers)),
      kill: () => Promise.resolve(fake.kill()),
      start: () => Promise.resolve(fake.start()),
      countUnsettled: (consumer) => Promise.resolve(fake.countUnsettled('ORDERS', consumer)),
      stop: () => Promise.resolve(),
    });
  },
});
