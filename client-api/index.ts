/** The exports of `voidbox/client`: a client of the HTTP API, for Node and for pages of the service's own origin. */
export { createClient, type BlobCalls, type Client, type VmCalls } from './client.ts';
export type { CallOptions, ClientOptions, FetchFunction } from './options.ts';
export type { ArtifactName, CancelOptions, ListOptions, ResultOptions, RunCalls, StartOptions } from './runs.ts';
export type { FollowOptions, RunEnd, TroubleOptions } from './follow.ts';
export type { FollowLogOptions, LogOptions, LogSelection } from './logs.ts';
export type { SessionCalls, SessionListOptions, SessionWaitOptions } from './sessions.ts';
export { ApiError, ConnectionError, ForeignAnswerError, VoidboxError } from './errors.ts';
export type {
  ActionResults,
  Answer,
  AnswerOfStep,
  AnswerReceipt,
  Artifact,
  Artifacts,
  Blob,
  CancelledRun,
  CancelledSession,
  Diagnostic,
  ForkRun,
  Health,
  Problem,
  Questions,
  Readiness,
  Result,
  RetainedVm,
  RetainedVms,
  RerunPreview,
  RetryRun,
  Run,
  RunActions,
  RunList,
  Session,
  SessionResult,
  Sessions,
  Stage,
  StartedRerun,
  StartedRun,
  StartRun,
  StartSession,
  StepRecord,
  StepResult,
  Version,
} from './openapi.ts';
export type { RunEvent } from '../domain/run/event.ts';
