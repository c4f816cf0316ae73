import { expect, test } from 'vitest';
import { checkExpressions } from '../../../domain/language/expression/check.ts';
import { compileText } from '../../../domain/language/load.ts';
import { renderEvents } from './triggers.ts';

function render(on: readonly object[], notify: readonly object[] = []): string {
  const spec = { kind: 'workflow', name: 'x', on, notify, workflow: { steps: [{ name: 'a', run: 'true' }] } };
  const compiled = compileText(JSON.stringify(spec), 'x.json', { baseDir: '/', checkExpression: checkExpressions });
  return renderEvents(compiled.triggers, compiled.notify);
}

test('a spec without triggers has no line', () => {
  expect(render([])).toBe('');
});

test('each trigger is shown with its source, and secrets once', () => {
  expect(
    render([
      { name: 'hook', webhook: { verify: 'github', secret: 'B' } },
      { name: 'own', webhook: { verify: { header: 'X-Sig' }, secret: 'A' } },
      { name: 'again', webhook: { verify: 'gitlab', secret: 'B' } },
      { name: 'open', webhook: { verify: 'none' } },
      { name: 'night', schedule: { cron: ['30 2 * * *', '0 4 * * *'], timezone: 'Europe/Berlin' } },
      { name: 'often', schedule: { every: '90m' } },
      { name: 'queue', queue: { nats: { servers: 'tls://a.example', stream: 'S', consumer: 'c', creds: 'C' } } },
    ]),
  ).toBe(
    'triggers of a deployment: hook (webhook, github), own (webhook, hmac), again (webhook, gitlab), open (webhook, accepts every request), night (30 2 * * * and 0 4 * * *, Europe/Berlin), often (every 90m), queue (queue, S of tls://a.example:4222)\nsecrets of its triggers: A, B, C\n',
  );
});

test('each receiver is shown with its states, and the secrets that receivers and outboxes need', () => {
  const notify = [
    { name: 'ops', states: ['failed', 'late'], webhook: { url: 'https://ops.example/', secret: 'SIGN' } },
    { name: 'chat', states: 'asking', slack: { secret: 'CHAT_URL' } },
    { name: 'bus', states: 'failed', cloudevents: { url: 'https://bus.example/' } },
  ];
  expect(render([{ name: 'orders', outbox: { secret: 'DB', ca: 'CA', table: 'o' } }], notify)).toBe(
    'triggers of a deployment: orders (outbox o)\nreceivers of notifications: ops (webhook: failed, late), chat (slack: asking), bus (cloudevents: failed)\nsecrets of its triggers: CA, DB\nsecrets of its receivers: CHAT_URL, SIGN\n',
  );
});
