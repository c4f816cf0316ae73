import { WORKSPACE_DEFAULTS } from '../../plan/defaults.ts';
import { WORKSPACE_CHANGES } from '../../plan/plan.ts';
import type { Key, MappingTable } from './table.ts';

export const WORKSPACE = {
  form: (text) => `{ git: ${text} }`,
  keys: {
    git: {
      as: 'git',
      type: {
        is: 'text',
        holds: 'path or https address',
        filled: 'name a repository; `.` is the repository of the spec',
      },
      group: 'source',
      mistaken: ['repo', 'repository', 'url', 'path', 'source', 'clone'],
      form: 'git: .` or `from: STAGE',
      doc: "A repository: its top folder, from the spec's folder, or a URL that begins with `https://`.",
      example: './app',
    },
    from: {
      as: 'from',
      type: { is: 'text', holds: "a stage's name" },
      group: 'source',
      feeds: 'edges',
      mistaken: ['stage', 'of', 'continue'],
      doc: 'Continues the workspace of an earlier stage.',
      example: 'fix',
    },
    ref: {
      as: 'ref',
      type: { is: 'text', holds: 'branch, tag or commit', lenient: true, filled: 'name a branch, a tag or a commit' },
      needs: 'git',
      mistaken: ['branch', 'tag', 'commit', 'revision', 'rev', 'checkout'],
      otherwise: 'what is checked out',
      doc: 'The commit to start from. For a URL: a branch, a tag or a whole hash.',
      example: 'main',
    },
    include_dirty: {
      as: 'includeDirty',
      type: { is: 'flag' },
      needs: 'git',
      mistaken: ['dirty', 'uncommitted', 'include_uncommitted', 'with_changes'],
      default: false,
      doc: 'Also takes uncommitted changes and files that are not ignored. Only for a folder.',
      example: true,
    },
    changes: {
      as: 'changes',
      type: { is: 'word', words: WORKSPACE_CHANGES },
      mistaken: ['keep', 'leaves', 'outputs', 'read_only', 'readonly', 'discard'],
      default: 'keep',
      doc: '`none`: the stage keeps no changes and hands on no workspace.',
      example: 'none',
    },
    subfolder: {
      as: 'subfolder',
      type: { is: 'text', holds: 'path', filled: 'name a folder of the repository, or remove it' },
      mistaken: ['subdir', 'subdirectory', 'folder', 'working_directory', 'workdir', 'package'],
      otherwise: 'the top folder',
      doc: 'The working folder in the repository. The guest has all of it, and changes outside of this folder count, too.',
      example: 'packages/a',
    },
    guest: {
      as: 'guestPath',
      type: { is: 'text', holds: 'absolute path', plain: true, absolute: true },
      mistaken: ['target', 'to', 'dest', 'guest_path', 'mount', 'dir'],
      default: WORKSPACE_DEFAULTS.guestPath,
      doc: 'The folder in the guest. It must not contain `/workspace` or `/home/sandbox`.',
      example: '/workspace/app',
    },
  },
} as const satisfies MappingTable;

const { from: _from, git, ...BESIDE } = WORKSPACE.keys;
const { group: _group, ...GIT } = git;

/** The workspace of a spec's only stage: it cannot continue another stage's workspace. */
const OWN_WORKSPACE = {
  form: WORKSPACE.form,
  keys: { git: { ...GIT, required: true, form: 'git: .' }, ...BESIDE },
} as const satisfies MappingTable;

/** The key `workspace` of a step or a box. */
export const WORKSPACE_KEY = {
  as: 'workspace',
  type: { is: 'mapping', table: WORKSPACE },
  mistaken: ['repo', 'repository', 'git', 'checkout'],
  form: 'workspace: { git: . }',
  doc: 'A git repository to work in; `voidbox apply` brings back the changes. See [Workspaces](#workspaces).',
  example: { git: './app', ref: 'main' },
} as const satisfies Key;

/** The key `workspace` of the stage of `kind: agent`. */
export const OWN_WORKSPACE_KEY = {
  ...WORKSPACE_KEY,
  type: { is: 'mapping', table: OWN_WORKSPACE },
} as const satisfies Key;
