/** Isolated, because the heap holds what other files of the same process have left. */
import { expect, it } from 'vitest';
import { createLineReader } from './lines.ts';

it('the reader of lines holds a line that comes byte by byte in as many bytes as it has, or twice of them', () => {
  const lines = createLineReader(4 * 1024 * 1024);
  const byte = new Uint8Array([0x78]);
  const before = process.memoryUsage();
  for (let count = 0; count < 1024 * 1024; count += 1) lines.push(byte);
  const after = process.memoryUsage();
  const grown = after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers;
  expect(grown / 1024 / 1024, 'MiB for 1 MiB').toBeLessThan(40);
  expect(lines.push(new Uint8Array([0x0a]))[0]!.text).toHaveLength(1024 * 1024);
});
