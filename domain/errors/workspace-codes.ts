import type { ErrorCodeInfo } from './code-info.ts';

/** How a stage with a workspace fails, in addition to the failures of its work. Part of `ERROR_CODES`. */
export const WORKSPACE_CODES = {
  'workspace/unusable': {
    kind: 'outcome',
    retry: 'never',
    summary:
      'The repository of a workspace cannot be packed or unpacked. It is not a git repository, has no such ref, is larger than a workspace may be, or does not fit the disk of the VM.',
    remedy: 'Follow the message; [Limits](workspaces.md#limits) lists the largest sizes.',
  },
  'workspace/refused': {
    kind: 'outcome',
    retry: 'never',
    summary:
      'Voidbox cannot save the changes of a stage in its workspace: the folder is no longer a repository, it contains objects that git rejects, or it has more changes than a workspace may have.',
    remedy:
      'Follow the message. Do not change `.git` directly, list build products in `.gitignore`, and return large data as `outputs`.',
  },
} as const satisfies Record<string, ErrorCodeInfo>;
