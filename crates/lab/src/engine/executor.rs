//! The runtime of one simulated process: its tasks, its timers, its clock.
//!
//! Nothing runs by itself. The simulation sets the process's clock and calls [`run`](Executor::run). Due
//! timers fire in the order of their moments; tasks run in the order in which they were woken, each until it
//! waits, until no task is ready. During a pause of the process there are no calls, but its clock goes on:
//! when it runs again, everything that became due meanwhile is due at once. A [kill](Executor::kill) drops all
//! tasks, and nothing that their destructors spawn runs.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use tenure::{
    backend::Boxed,
    clock::{Clock, Moment},
    host::{Host, Leash},
};

use super::Dice;

/// More polls at one moment than a correct process needs.
const TURNS_MAX: usize = 100_000;

/// One process's runtime. Clones share it.
#[derive(Clone)]
pub struct Executor(Arc<Shared>);

type Task = Boxed<'static, ()>;
type TaskId = u64;

struct Shared {
    dead: AtomicBool,
    state: Mutex<State>,
}

struct State {
    now: Moment,
    dice: Dice,
    /// `None` while the task runs.
    tasks: BTreeMap<TaskId, Option<Task>>,
    ready: VecDeque<TaskId>,
    timers: BTreeMap<(Moment, u64), Waker>,
    last_task: TaskId,
    last_timer: u64,
}

impl Executor {
    /// An executor whose randomness comes from this seed.
    pub fn new(seed: u64) -> Executor {
        let state = State {
            now: Moment::default(),
            dice: Dice::new(seed),
            tasks: BTreeMap::new(),
            ready: VecDeque::new(),
            timers: BTreeMap::new(),
            last_task: 0,
            last_timer: 0,
        };
        Executor(Arc::new(Shared { dead: AtomicBool::new(false), state: Mutex::new(state) }))
    }

    pub fn host(&self) -> Arc<dyn Host> {
        Arc::new(self.clone())
    }

    /// Sets the process's clock. It never goes back.
    pub fn set_clock(&self, now: Moment) {
        let mut state = self.0.state();
        state.now = state.now.max(now);
    }

    /// Whether a task is ready or a timer is due.
    pub fn is_ready(&self) -> bool {
        let state = self.0.state();
        !state.ready.is_empty()
            || state.timers.first_key_value().is_some_and(|(due, _)| due.0 <= state.now)
    }

    /// When the next timer is due, by the process's clock.
    pub fn next_timer(&self) -> Option<Moment> {
        self.0.state().timers.first_key_value().map(|(due, _)| due.0)
    }

    /// Runs all tasks that are ready.
    pub fn run(&self) {
        for _ in 0..TURNS_MAX {
            let ringing = self.0.state().ring();
            ringing.into_iter().for_each(Waker::wake);
            let Some((id, mut task)) = self.0.state().next() else { return };
            let waker = Waker::from(Arc::new(Woken { id, of: Arc::downgrade(&self.0) }));
            let done = task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
            let mut state = self.0.state();
            // The task may have aborted itself.
            let stopped = match state.tasks.get_mut(&id) {
                Some(slot) if !done => {
                    *slot = Some(task);
                    continue;
                }
                Some(_) => state.tasks.remove(&id).flatten(),
                None => None,
            };
            drop(state);
            drop((stopped, task));
        }
        panic!("a process does not come to rest at one moment");
    }

    /// Ends the process.
    pub fn kill(&self) {
        self.0.dead.store(true, Ordering::Release);
        loop {
            let mut state = self.0.state();
            state.ready.clear();
            let (tasks, timers) =
                (std::mem::take(&mut state.tasks), std::mem::take(&mut state.timers));
            drop(state);
            if tasks.is_empty() && timers.is_empty() {
                return;
            }
            // Outside of the lock: destructors may use the executor.
            drop(tasks);
        }
    }

    pub fn is_dead(&self) -> bool {
        self.0.is_dead()
    }

    /// Whether all its tasks have ended.
    pub fn is_idle(&self) -> bool {
        self.0.state().tasks.is_empty()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    fn wake(&self, id: TaskId) {
        let mut state = self.state();
        if state.tasks.contains_key(&id) && !state.ready.contains(&id) {
            state.ready.push_back(id);
        }
    }
}

impl State {
    /// Takes the wakers of all timers that are due.
    fn ring(&mut self) -> Vec<Waker> {
        let later = (Moment::after_start(self.now.since_start() + Duration::from_nanos(1)), 0);
        let rest = self.timers.split_off(&later);
        std::mem::replace(&mut self.timers, rest).into_values().collect()
    }

    fn next(&mut self) -> Option<(TaskId, Task)> {
        loop {
            let id = self.ready.pop_front()?;
            if let Some(task) = self.tasks.get_mut(&id).and_then(Option::take) {
                return Some((id, task));
            }
        }
    }
}

struct Woken {
    id: TaskId,
    of: Weak<Shared>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        if let Some(shared) = self.of.upgrade() {
            shared.wake(self.id);
        }
    }
}

impl Clock for Executor {
    fn now(&self) -> Moment {
        self.0.state().now
    }

    fn sleep_until(&self, moment: Moment) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.sleep(moment))
    }
}

impl Host for Executor {
    fn pause(&self, time: Duration) -> Boxed<'_, ()> {
        Box::pin(async move { self.sleep(self.now() + time).await })
    }

    fn spawn(&self, task: Task) -> Leash {
        if self.0.is_dead() {
            return Leash::new(|| {});
        }
        let mut state = self.0.state();
        state.last_task += 1;
        let id = state.last_task;
        state.tasks.insert(id, Some(task));
        state.ready.push_back(id);
        let of = Arc::downgrade(&self.0);
        Leash::new(move || {
            let Some(shared) = of.upgrade() else { return };
            let stopped = shared.state().tasks.remove(&id);
            drop(stopped);
        })
    }

    fn seed(&self) -> u64 {
        self.0.state().dice.next_u64()
    }
}

impl Executor {
    /// Waits for a moment of the process's clock.
    pub fn sleep(&self, until: Moment) -> impl Future<Output = ()> + Send + use<> {
        Sleep { of: Arc::downgrade(&self.0), until, timer: None }
    }
}

struct Sleep {
    /// Weak: a pending sleep does not keep the executor alive.
    of: Weak<Shared>,
    until: Moment,
    timer: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(shared) = self.of.upgrade() else { return Poll::Pending };
        let mut state = shared.state();
        if state.now >= self.until {
            return Poll::Ready(());
        }
        let timer = self.timer.unwrap_or(state.last_timer + 1);
        state.last_timer = state.last_timer.max(timer);
        state.timers.insert((self.until, timer), context.waker().clone());
        self.timer = Some(timer);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let (Some(shared), Some(timer)) = (self.of.upgrade(), self.timer) {
            let forgotten = shared.state().timers.remove(&(self.until, timer));
            drop(forgotten);
        }
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").field("now", &self.now()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ms;

    type Told = Arc<Mutex<Vec<&'static str>>>;

    fn tell(told: &Told, what: &'static str) {
        told.lock().unwrap().push(what);
    }

    fn at(millis: u64) -> Moment {
        Moment::after_start(ms(millis))
    }

    #[test]
    fn executor_runs_tasks_in_the_order_of_their_wakeups() {
        let (executor, told) = (Executor::new(1), Told::default());
        for (wait, name) in [(20, "second"), (10, "first"), (20, "third")] {
            let (of, told) = (executor.clone(), told.clone());
            executor.spawn(Box::pin(async move {
                of.pause(ms(wait)).await;
                tell(&told, name);
            }));
        }
        executor.run();
        assert_eq!(executor.next_timer(), Some(at(10)));
        executor.set_clock(at(9));
        assert!(!executor.is_ready());
        // The process was paused for longer than both waits.
        executor.set_clock(at(500));
        executor.run();
        assert_eq!(*told.lock().unwrap(), ["first", "second", "third"]);
        assert!(executor.is_idle());
    }

    /// Records its drop, and tries to spawn a task.
    struct Last(Told, Executor);

    impl Drop for Last {
        fn drop(&mut self) {
            tell(&self.0, "dropped");
            let told = self.0.clone();
            self.1.spawn(Box::pin(async move { tell(&told, "ran") }));
        }
    }

    #[test]
    fn executor_runs_nothing_after_a_kill() {
        let (executor, told) = (Executor::new(1), Told::default());
        let last = Last(told.clone(), executor.clone());
        executor.spawn(Box::pin(async move {
            let _last = last;
            std::future::pending::<()>().await;
        }));
        executor.run();
        executor.kill();
        executor.run();
        assert_eq!(*told.lock().unwrap(), ["dropped"]);
    }

    #[test]
    fn executor_task_can_abort_itself() {
        let (executor, told) = (Executor::new(1), Told::default());
        let leash = Arc::new(Mutex::new(None::<Leash>));
        let (own, last) = (leash.clone(), Last(told.clone(), executor.clone()));
        let stops = executor.spawn(Box::pin(async move {
            let _last = last;
            own.lock().unwrap().as_ref().expect("it was put there").abort();
            std::future::pending::<()>().await;
        }));
        *leash.lock().unwrap() = Some(stops);
        executor.run();
        assert_eq!(*told.lock().unwrap(), ["dropped", "ran"]);
        assert!(executor.is_idle());
    }
}
