import type { Machine } from '../app/machine.ts';
import type { AccessStore } from '../store/access.ts';
import type { UploadStore } from '../store/uploads.ts';
import type { ApiLimits } from './limits.ts';

export interface ApiOptions {
  readonly machine: Machine;
  readonly uploads: UploadStore;
  readonly version: string;
  /** Opens the tokens and the audit log at the first call. */
  readonly access: () => Promise<AccessStore>;
  readonly limits: ApiLimits;
  readonly log: (line: string) => void;
}
