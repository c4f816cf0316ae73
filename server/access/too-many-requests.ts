import { AppError } from '../../app/app-error.ts';

/** A request beyond the limit, with the seconds after which the client may try again. */
export class TooManyRequests extends AppError {
  readonly retryAfterSeconds: number;

  constructor(waitMs: number) {
    const seconds = Math.max(1, Math.ceil(waitMs / 1_000));
    super('usage', 'api/too-many-requests', `too many requests: try again after ${seconds} s`);
    this.name = 'TooManyRequests';
    this.retryAfterSeconds = seconds;
  }
}
