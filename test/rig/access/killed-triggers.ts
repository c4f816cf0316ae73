/** The triggers of deliveries whose processes are killed. */
import { DEFAULT_DEDUPE_MS, type Trigger } from '../../../domain/delivery/trigger.ts';

const PLAIN: Trigger = {
  name: 'plain',
  source: { kind: 'webhook', verify: { scheme: 'none' }, format: 'payload', respond: null },
  when: null,
  params: {},
  input: null,
  dedupe: { key: null, forMs: DEFAULT_DEDUPE_MS },
  debounce: null,
  batch: null,
  rate: null,
  order: null,
};

export const KILLED_TRIGGERS: readonly Trigger[] = [
  PLAIN,
  { ...PLAIN, name: 'ordered', order: { key: 'x' } },
  { ...PLAIN, name: 'debounced', debounce: { key: 'x', delayMs: 150, maxDelayMs: 600, take: 'last' } },
  { ...PLAIN, name: 'batched', batch: { key: 'x', size: 3, timeoutMs: 300 } },
];
