//! The page, read as text.

use highwater_core::ports::Fault;

use super::fake::{FakeIndex, FakeView};
use super::{Answer, Served};

/// The page's words, without its markup.
fn words(answer: &Answer) -> String {
    let mut text = String::new();
    let mut inside = false;
    for letter in answer.text.chars() {
        match letter {
            '<' => inside = true,
            '>' => (inside, text) = (false, text + " "),
            _ if !inside => text.push(letter),
            _ => {}
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace(" ,", ",").replace(" .", ".")
}

#[tokio::test]
async fn one_line_says_it_all() {
    let answer = Served::ads().await.get("/").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8");
    let words = words(&answer);
    let line = "Fresh as of 12:05:00 UTC (2 min ago), complete to watermark 12:05:00, 1,204,331 documents, no lag.";
    assert!(words.contains(line), "{words}");
    assert!(!words.contains("Needs a look"), "{words}");
    assert!(words.contains("30 12:00:00 incremental 2 130 3 1,204,030 4.2 s 417 ms"), "{words}");
}

#[tokio::test]
async fn troubles_stand_with_what_to_do() {
    let answer = Served::new(vec![FakeView::troubled("ads")]).await.get("/").await;
    let words = words(&answer);
    for part in [
        "needs a look",
        "lag 7 min.",
        "Not ready: the watermark is 420 s behind.",
        "misplaced files",
        "source's layout fits",
        "The detail names what to look at",
        "brand new kind",
        "1 file in quarantine",
        "not a parquet file: no footer",
        "1 hole",
        "The pipeline was away for longer than its window.",
        "2026-04-30 01:00:00",
        "1 row refused lately",
    ] {
        assert!(words.contains(part), "{part:?} in {words}");
    }
    for raw in ["<b>dt", "<img", "<i>x"] {
        assert!(!answer.text.contains(raw), "{raw} is not escaped");
    }
}

#[tokio::test]
async fn a_search_shows_hits_and_as_of() {
    let answer = Served::ads().await.get("/?q=kettle").await;
    let words = words(&answer);
    assert!(words.contains("1–2 of 2 documents"), "{words}");
    assert!(words.contains("As of batch 30, complete to watermark 12:05:00 (2 min ago)"), "{words}");
    assert!(words.contains("Blue kettle id 1 price 19.90 stock 18446744073709551615 "), "{words}");
    assert!(answer.text.contains("href=\"/api/v1/pipelines/ads/documents/de%2F2%20%C3%BC\""), "{}", answer.text);
    assert!(answer.text.contains("value=\"kettle\""));
}

#[tokio::test]
async fn whatever_documents_and_queries_hold_is_text() {
    let served = Served::ads().await;
    let answer = served.get("/?q=%3Cscript%3E").await;
    assert!(!answer.text.contains("<script>"), "{}", answer.text);
    assert!(answer.text.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;quotes&quot;"), "{}", answer.text);
    let answer = served.get("/?q=%22%3E%3Cimg+src%3Dx%3E").await;
    assert!(answer.text.contains("value=\"&quot;&gt;&lt;img src=x&gt;\""), "{}", answer.text);
    assert!(words(&answer).contains("0 documents match"));
}

#[tokio::test]
async fn mistakes_are_told_on_the_page() {
    let served = Served::ads().await;
    let answer = served.get("/?q=%5B").await;
    assert_eq!(answer.status, 400);
    assert!(answer.text.contains("role=\"alert\">expected a range at 1: &lt;[&gt;"), "{}", answer.text);
    assert!(words(&answer).contains("Fresh as of"), "the rest of the page stands");
    for (path, status) in [
        (format!("/?q={}", "x".repeat(5_000)), 400),
        ("/?q=x&offset=-1".to_owned(), 400),
        ("/?pipeline=adz".to_owned(), 404),
        ("/?page=2".to_owned(), 400),
    ] {
        let answer = served.get(&path).await;
        assert_eq!(answer.status, status, "{path}");
        assert!(answer.text.starts_with("<!DOCTYPE html>"), "{path}");
    }
}

#[tokio::test]
async fn a_page_stands_where_nothing_else_does() {
    let waiting = Served::new(vec![FakeView::waiting("ads")]).await;
    assert!(words(&waiting.get("/").await).contains("No batch was committed yet; the first one fills the index."));
    let answer = waiting.get("/?q=x").await;
    assert_eq!(answer.status, 503);
    assert!(words(&answer).contains("the index holds no committed batch yet"));

    let mut view = FakeView::new("ads");
    view.status = Err(Fault::Unavailable("the bucket <lake> is out of reach".to_owned()));
    view.batches = Err(Fault::Unavailable("the bucket <lake> is out of reach".to_owned()));
    let answer = Served::new(vec![view]).await.get("/").await;
    assert_eq!(answer.status, 200);
    let words = words(&answer);
    assert!(words.contains("The status cannot be read: the bucket &lt;lake&gt; is out of reach."), "{words}");
    assert!(words.contains("The batches cannot be read"), "{words}");
}

#[tokio::test]
async fn several_pipelines_stand_side_by_side() {
    let served = Served::new(vec![FakeView::new("ads"), FakeView::troubled("a&b items")]).await;
    let overview = served.get("/").await;
    assert!(overview.text.contains("href=\"/?pipeline=a%26b+items\""), "{}", overview.text);
    assert!(words(&overview).contains("4 things need a look"), "{}", words(&overview));
    let one = served.get("/?pipeline=a%26b+items&q=kettle").await;
    assert_eq!(one.status, 200);
    assert!(one.text.contains("name=\"pipeline\" value=\"a&amp;b items\""));
    assert!(one.text.contains("aria-current=\"page\""));
}

#[tokio::test]
async fn hits_are_paged() {
    let documents = (0..25).map(|n| (format!("{n:02}"), format!("{{\"id\":\"{n:02}\"}}"))).collect();
    let mut view = FakeView::new("ads");
    view.index = Ok(FakeIndex(documents).into());
    let served = Served::new(vec![view]).await;
    let first = served.get("/?q=").await;
    assert!(words(&first).contains("1–10 of 25 documents"));
    assert!(first.text.contains("rel=\"next\" href=\"/?pipeline=ads&amp;q=&amp;offset=10#search\""), "{}", first.text);
    let last = served.get("/?q=&offset=20").await;
    assert!(words(&last).contains("21–25 of 25 documents"));
    assert!(last.text.contains("rel=\"prev\"") && !last.text.contains("rel=\"next\""));
    assert!(words(&served.get("/?q=&offset=30").await).contains("none past the first 30"));
}

#[tokio::test]
async fn nothing_is_asked_of_another_host_and_nothing_is_inline() {
    let served = Served::new(vec![FakeView::troubled("ads")]).await;
    for path in ["/", "/?q=kettle", "/?pipeline=none", "/style.css", "/live.js"] {
        let answer = served.get(path).await;
        for foreign in ["http:", "https:", "//fonts", "@import", "style=\"", "onclick", "javascript:"] {
            assert!(!answer.text.contains(foreign), "{path} holds {foreign}");
        }
    }
    assert_eq!(served.get("/style.css").await.headers["content-type"], "text/css; charset=utf-8");
    assert_eq!(served.get("/icon.svg").await.status, 200);
}

#[tokio::test]
async fn it_looks_again_by_itself_unless_an_answer_is_shown() {
    let served = Served::ads().await;
    let refresh = "<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>";
    assert!(served.get("/").await.text.contains(refresh));
    assert!(!served.get("/?q=").await.text.contains(refresh));
}

#[tokio::test]
async fn readers_without_eyes_or_mouse_find_their_way() {
    let text = Served::new(vec![FakeView::troubled("ads")]).await.get("/?q=kettle").await.text;
    for part in [
        "<html lang=\"en\">",
        "<main id=\"main\">",
        "<header",
        "<footer>",
        "href=\"#main\"",
        "<label for=\"q\">",
        "role=\"search\"",
        "<th scope=\"row\">30</th>",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let mut ids: Vec<_> = text.split(" id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "ids are unique");
}

/// Serves made-up pipelines until killed, for a look with a browser: `cargo test look -- --ignored`.
#[tokio::test]
#[ignore = "for the eye"]
#[allow(clippy::disallowed_macros)]
async fn look() {
    let served = Served::new(vec![FakeView::new("ads"), FakeView::troubled("items"), FakeView::waiting("new")]).await;
    println!("http://{}/", served.addr);
    std::future::pending::<()>().await;
}
