/** The entry point of native pieces: the keeper's client. It loads a binary into this process only by `useBinding`. */
export { MicroVm, type MicroVmLaunch } from './micro-vm.ts';
export { endVm } from './end-vm.ts';
export { keepVmAlive } from './keepalive.ts';
export { askVmStatus } from './vm-status.ts';
export { useBinding } from './binding.ts';
export { ConnectionError } from './connection.ts';
export {
  isAlive,
  readHostFacts,
  readRunDir,
  sealRunDir,
  sweepRunDirs,
  type HostFacts,
  type RunDirStatus,
  type SweptVm,
} from './keeper-command.ts';
export {
  listPoolDirs,
  listRunDirs,
  POOL_PREFIX,
  readEntry,
  readIntent,
  readNotices,
  readRetention,
  readVmKey,
  type VmEntry,
  vmRunDir,
  writeEntry,
} from './run-dirs.ts';
export { readDiskOfVm } from './disk-patience.ts';
export type {
  CpuTemplate,
  ExecEnd,
  ExecStart,
  FullDisk,
  FullSave,
  LaunchConfig,
  SavedLink,
  SnapshotFolder,
  OutputStream,
  SignalName,
  VmStart,
  VmState,
  VmStatus,
  VmUsage,
} from './api.ts';
export { isVmGone, OPEN_STDIN_BYTES } from './api.ts';
