import type { Machine } from '../app/machine.ts';
import type { ApiLimits } from './limits.ts';

export interface ApiOptions {
  readonly machine: Machine;
  readonly version: string;
  readonly limits: ApiLimits;
  readonly log: (line: string) => void;
}
