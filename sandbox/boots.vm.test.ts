/**
 * Boots under load, none of which may hang. `npm test` does a few; VOIDBOX_TEST_BOOTS=50 does the full count.
 */
import { expect, it } from 'vitest';
import { readEnvironment } from '../setup/environment.ts';
import { resolveHostPieces } from '../setup/resolve.ts';
import { limit, request, textOf } from '../test/conformance/sandbox/behaviour.ts';
import { createRealHost, SMALL_VM } from '../test/conformance/sandbox/real-host.ts';

const FULL_COUNT = 50;
const SHORT_COUNT = 4;
const AT_ONCE = 2;
/** The limit allows for emulation on two busy cores. */
const BOOT_LIMIT_MS = 60_000;

const environment = readEnvironment();
const count = Number(environment.variables['VOIDBOX_TEST_BOOTS'] ?? SHORT_COUNT);

it(`${count} boots, ${AT_ONCE} at a time`, { timeout: (count / AT_ONCE + 1) * BOOT_LIMIT_MS }, async () => {
  const pieces = await resolveHostPieces(environment, { install: true });
  const host = await createRealHost(pieces, { snapshots: 'off' });
  const bootsMs: number[] = [];
  let next = 0;
  const bootInTurn = async (): Promise<void> => {
    while (next < count) {
      const key = { runId: 'boots', scope: `vm-${(next += 1)}`, instance: [], generation: 0 };
      const sandbox = await host.backend.launch(key, SMALL_VM, limit());
      expect(await textOf(sandbox, request('echo', ['up']))).toBe('up');
      bootsMs.push(sandbox.facts.bootMs);
      await sandbox.stop();
    }
  };
  // This is asserted after the block: within it, a failure here would hide the first one.
  let left: readonly string[];
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, bootInTurn));
  } finally {
    left = await host.dispose();
  }
  expect(left).toEqual([]);
  bootsMs.sort((a, b) => a - b);
  const rest = count < FULL_COUNT ? `; the full count is VOIDBOX_TEST_BOOTS=${FULL_COUNT}` : '';
  console.log(
    `${bootsMs.length} boots of the ${pieces.kernel.kind} kernel, ${AT_ONCE} at a time: median ${bootsMs[Math.floor(bootsMs.length / 2)]} ms, longest ${bootsMs.at(-1)} ms${rest}`,
  );
  expect(bootsMs).toHaveLength(count);
});
