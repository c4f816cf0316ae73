/** The verdict on two builds that were measured pair by pair. Pure. */
import { type ArmResult, format, formatSpread, measurePairedRatio, type Spread, spread } from '../measure.ts';

/** A build that needs a tenth more than the build before it has lost. */
export const MOST_RATIO = 1.1;

/** One measure of both builds. A smaller value is better. */
export interface Compared {
  /** Such as "a stage in a row: latency". */
  readonly figure: string;
  readonly unit: string;
  readonly base: Spread;
  readonly current: Spread;
  /** The current build divided by the base build, round by round. */
  readonly ratio: Spread;
}

export function compareMeasure<T extends string>(
  figure: string,
  unit: string,
  [base, current]: readonly [ArmResult<T>, ArmResult<T>],
  measure: NoInfer<T>,
): Compared {
  const values = ({ rounds }: ArmResult<T>): readonly number[] => rounds.map((round) => round[measure]);
  return {
    figure,
    unit,
    base: spread(values(base)),
    current: spread(values(current)),
    ratio: measurePairedRatio(current, base, measure),
  };
}

/** True if the median ratio reaches the limit, or is no number: then the comparison shows nothing. */
export function isLoss({ ratio }: Compared): boolean {
  return !(ratio.median < MOST_RATIO);
}

export function renderComparison(all: readonly Compared[]): readonly string[] {
  const rows = all.map((compared) => [
    compared.figure,
    `${format(compared.base.median)} ${compared.unit}`,
    `${format(compared.current.median)} ${compared.unit}`,
    formatSpread(compared.ratio),
    isLoss(compared) ? 'LOSS' : 'ok',
  ]);
  const table = [['figure', 'base', 'this build', 'ratio', ''], ...rows];
  const widths = table[0]!.map((_, column) => Math.max(...table.map((row) => row[column]!.length)));
  return table.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  );
}
