//! Ten thousand requests through a layer, with random disconnects, panics of the service, reloads
//! and drains: nothing stays held.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tidegate_core::Class;
use tidegate_engine::OfferOutcome;
use tidegate_store::DynStore;
use tidegate_tower::{AdmitLayer, extract};
use tokio::time::Sleep;
use tower::{Layer, ServiceExt, service_fn};

use crate::soak_world::{
    CallerRequest, FEATURE, NAMESPACE, Random, SoakWorld, Stage, USERS, panic_as_planned, soak,
};

fn open(world: &SoakWorld) -> AdmitLayer {
    AdmitLayer::new(world.engine.clone(), NAMESPACE)
        .unwrap()
        .attribute("user", extract::header("x-user"))
        .class(extract::header("x-class"))
        .feature(extract::header("x-feature"))
        .cost_from_response("x-cost")
        .wait(Duration::from_millis(200))
        .store(Arc::clone(&world.store) as Arc<dyn DynStore>)
        .clock(Arc::clone(&world.clock))
}

/// A body that sends some frames slowly, and then ends, fails or panics.
struct SlowBody {
    frames: u64,
    pause: Pin<Box<Sleep>>,
    random: Random,
}

impl Body for SlowBody {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        ready!(self.pause.as_mut().poll(context));
        if self.frames == 0 {
            return Poll::Ready(match self.random.below(10) {
                0 => panic_as_planned(),
                1 => Some(Err("the body broke off")),
                _ => None,
            });
        }
        self.frames -= 1;
        // Sleeps: on tokio's paused clock, no real time passes.
        self.pause = Box::pin(tokio::time::sleep(self.random.under_ms(8)));
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
    }
}

/// Works for a while, and answers, fails or panics: in the call itself or while it works.
fn serve(
    caller: Arc<Mutex<CallerRequest>>,
) -> impl Future<Output = Result<Response<SlowBody>, &'static str>> + Send {
    let mut random = {
        let mut caller = caller.lock().unwrap();
        caller.stage = Stage::AtWork;
        caller.random.clone()
    };
    if random.one_in(20) {
        panic_as_planned();
    }
    async move {
        // Sleeps: on tokio's paused clock, no real time passes.
        tokio::time::sleep(random.under_ms(20)).await;
        match random.below(20) {
            0 => panic_as_planned(),
            1 => Err("the service failed"),
            cost => {
                caller.lock().unwrap().stage = Stage::InBody;
                // Sleeps: on tokio's paused clock, no real time passes.
                let (frames, pause) = (random.below(3), Box::pin(tokio::time::sleep(random.under_ms(8))));
                let response = Response::builder().header("x-cost", cost % 4);
                Ok(response.body(SlowBody { frames, pause, random }).unwrap())
            }
        }
    }
}

/// Sends one request, and reads the body of its answer.
async fn call(layer: AdmitLayer, mut caller: CallerRequest) {
    let (user, class) = (caller.random.pick(&USERS), caller.random.pick(&Class::ALL));
    let mut request = Request::builder().header("x-user", user).header("x-class", class.as_str());
    if caller.random.one_in(4) {
        request = request.header("x-feature", FEATURE);
    }
    let caller = Arc::new(Mutex::new(caller));
    let served = Arc::clone(&caller);
    let service = layer.layer(service_fn(move |_: Request<()>| serve(Arc::clone(&served))));
    if let Ok(response) = service.oneshot(request.body(()).unwrap()).await {
        let _ = response.into_body().collect().await;
    }
    caller.lock().unwrap().stage = Stage::Over;
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_requests_with_disconnects_panics_reloads_and_drains_leave_nothing_held() {
    let world = soak(0x0074_6f77_6572, open, call).await;
    // Every request waits for a place, so none is refused for want of one. The cursor sheds before
    // a wait of 200 ms ends, so none expires either; some are cancelled.
    // There is no fair queue, no request without a known end, and no stream.
    // No limit denies for good what the store does not answer: that is unavailable.
    let absent = [
        OfferOutcome::QueueDelay,
        OfferOutcome::OutOfPace,
        OfferOutcome::NoPlace,
        OfferOutcome::NoStream,
        OfferOutcome::Deferred,
        OfferOutcome::Denied,
        OfferOutcome::Throttled,
        OfferOutcome::Expired,
        OfferOutcome::Failed,
    ];
    // Its requests go to the default resource, which always enforces.
    let is_absent = |outcome| absent.contains(&outcome) || OfferOutcome::WOULD.contains(&outcome);
    world.assert_that_all_happened(|outcome| !is_absent(outcome));
}
