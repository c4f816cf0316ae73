const STEPS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

/** Formats a size for people, in binary units: `999 B`, `1.5 KiB`, `20 MiB`. */
export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  let step = 1;
  // The rounded value chooses the unit: 1,048,570 bytes are 1.0 MiB, not 1024 KiB.
  while (step < STEPS.length - 1 && bytes / 1024 ** step >= 1023.5) step += 1;
  const value = bytes / 1024 ** step;
  return `${value.toFixed(value < 9.95 ? 1 : 0)} ${STEPS[step]!}`;
}
