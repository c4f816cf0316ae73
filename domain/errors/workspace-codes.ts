import type { ErrorCodeInfo } from './code-info.ts';

/** How a stage with a workspace fails, in addition to the failures of its work. Part of `ERROR_CODES`. */
export const WORKSPACE_CODES = {
  'workspace/unusable': {
    kind: 'outcome',
    retry: 'never',
    summary:
      'The repository of a workspace cannot be packed or unpacked: it is not a git repository, has no such ref, is larger than a workspace may be, or does not fit the disk of the VM.',
    remedy: 'Do what the message says; [Limits](workspaces.md#limits) says how large a repository may be.',
  },
  'workspace/refused': {
    kind: 'outcome',
    retry: 'never',
    summary:
      'The changes that a stage left in its workspace are refused: its folder is no longer a repository, has objects that git refuses, or more changes than a workspace may have.',
    remedy:
      'Do what the message says. Keep `.git` as it is found, ignore what is built, and leave large data as `outputs`.',
  },
} as const satisfies Record<string, ErrorCodeInfo>;
